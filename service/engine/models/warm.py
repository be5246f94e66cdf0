"""What challengers bring along that have learned from the model's history before they entered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from service.engine.models.state_steps import read_state
from service.events import Label
from service.learning import saved

if TYPE_CHECKING:
    from service.engine.models.state import ModelState


class Warm(NamedTuple):
    """Which history it was, and how the challenger fared on it. None of that counts as evidence."""

    from_version: int
    to_version: int
    rounds: int
    mistakes: int
    missed: int
    """Rounds that were revealed between the end of that history and the entry: it has not learned them."""

    @classmethod
    def restore(cls, kept: Any) -> Warm:
        """From a saved state; `saved.BadState` if it cannot be one's."""
        first, last, rounds, mistakes, missed = saved.items(kept, 5)
        to_version = saved.whole(last, "[1]")
        from_version = saved.whole(first, "[0]", to_version)
        rounds = saved.whole(rounds, "[2]", to_version - from_version)
        return cls(
            from_version,
            to_version,
            rounds,
            saved.whole(mistakes, "[3]", rounds),
            saved.whole(missed, "[4]"),
        )


class WarmLearner(NamedTuple):
    """What it has learned, and of which model: see `OtherWorld.learner_bytes`."""

    began_at: int
    revealed: int
    """How many rounds the model had."""
    labels: list[Label]
    features: Any
    classifier: Any
    calibration: Any

    @classmethod
    def read(cls, data: bytes) -> WarmLearner:
        state = read_state(data)
        return cls(*(state[name] for name in cls._fields))

    def is_of(self, model: ModelState) -> bool:
        """Not if the model was reset or rolled back since: then this is of another past."""
        known = len(self.labels)
        return self.began_at == model.began_at and self.labels == model.labels.values[:known]
