"""What a prediction was served with, and what is known of it when its label is revealed."""

from typing import Any, NamedTuple

import msgspec

from service.events import Certainty, Word
from service.learning.statistics.calibration import Standing

NO_STANDING: Standing = (0.0, 0.0, None)
"""That of a prediction without a label, since no class was known."""


Served = tuple[int, float, Certainty]
"""A prediction: its class, -1 for none, its score, and how sure the model is of it."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What was true when a prediction was served whose label is revealed now."""

    at: int
    """When it was served."""
    certainty: Certainty | None
    """None if a version made it that did not know of it."""
    stale_updates: int = 0
    """How many updates came between prediction and reveal."""
    stale_weight: float = 0.0
    """What these weigh together."""
    delay: int = 0
    """How many reveals came between."""
    was_asked: bool | None = None
    """Whether its label was asked for; None if that was not the question."""
    before_reset: bool = False
    """Whether a reset came between."""


def served_by(certainty: Certainty | None) -> int:
    """The number of the learner that served a prediction: 0 if the model had no challengers then."""
    return 0 if certainty is None or certainty.lineup is None else certainty.lineup.learner


def words_of(seen: Seen, served: int) -> dict[int, Word]:
    """What each learner of a model had said of an example, by its number; nothing from before a reset counts."""
    certainty = seen.certainty
    if certainty is None or seen.before_reset:
        return {}
    number, c = served_by(certainty), certainty
    own = Word(number, served, c.gap, c.lead, c.probability, c.said, c.votes)
    shadows = () if certainty.lineup is None else certainty.lineup.shadows
    return {number: own, **{word.learner: word for word in shadows}}


class Unlabelled(NamedTuple):
    """What the predictions were served with that still wait for their labels."""

    predictions: int
    with_probability: int
    probabilities: float
    """The sum of their probabilities."""
    unasked: int
    """Those of them whose labels were not asked for."""
    awaited: list[float]
    """With what probabilities the labels of the others were asked for."""

    def report(self) -> dict[str, Any]:
        expected = 1.0 - self.probabilities / self.with_probability if self.with_probability else None
        return {"predictions": self.predictions, "expected_error_rate": expected}
