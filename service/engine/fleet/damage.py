"""Models that are set aside: what the journal has of them cannot be read, or an event of theirs cannot be applied.

The journal is the truth, so such an event is neither skipped nor undone. Its model answers no request until it is
deleted, or until a newer program can read it; what is left of it can be exported. All other models go on. Every start
and every replica comes to the same, since each has the same events.
"""

import logging
from collections import OrderedDict

from service.engine.fleet.live import Live
from service.engine.fleet.loading import fold_of
from service.engine.models.model import Model
from service.errors import ModelDamaged
from service.events import AnyEvent
from service.journal.protocol import StoredModel

KEPT_MAX = 10_000
"""Of so many models the reason is known without loading them once more."""

log = logging.getLogger(__name__)


class SetAside:
    """Damaged models by name, and the reason."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, name: str) -> bool:
        return name in self._reasons

    def add(self, name: str, reason: str) -> None:
        self._reasons[name] = reason
        self._reasons.move_to_end(name)
        if len(self._reasons) > KEPT_MAX:
            self._reasons.popitem(last=False)

    def add_failed(self, seq: int, event: AnyEvent, error: Exception) -> ModelDamaged:
        """Set the model of an event aside that cannot be applied; what its client is told."""
        name = event.model
        why = f"event {seq} ({type(event).__name__}) cannot be applied: {type(error).__name__}: {error}"[:500]
        log.error("set aside: %s is damaged", name, exc_info=error, extra={"model": name, "event": seq})
        self.add(name, f"the model {name!r} is damaged: {why}")
        return ModelDamaged(f"the event is in the journal, but the model {name!r} is damaged: {why}")

    def discard(self, name: str) -> None:
        """The model is deleted."""
        self._reasons.pop(name, None)

    def reasons(self) -> list[tuple[str, str]]:
        """All models that are set aside, and why."""
        return list(self._reasons.items())

    def reason(self, name: str) -> str | None:
        """Why a model is set aside, None if it is not."""
        return self._reasons.get(name)

    def check(self, name: str) -> None:
        """ModelDamaged if a model is set aside."""
        if self._reasons and (reason := self._reasons.get(name)) is not None:
            raise ModelDamaged(reason)


def salvage(name: str, stored: StoredModel) -> tuple[Model, int, int]:
    """What is left of a damaged model: as it was before the first event that cannot be applied.

    The model, the last event in it, and how many later ones are left out. ModelDamaged if nothing is left.
    """
    good = len(stored.tail)
    while True:
        try:
            live = Live.at_snapshot(stored)
        except Exception as error:
            raise ModelDamaged(f"of the model {name!r} nothing is left that can be read: {error}") from error
        rest = live.rest_of(stored)
        known, fold = len(stored.tail) - len(rest), fold_of(live)
        try:
            fold.run(rest[: good - known])
            return live.model, live.seq, len(stored.tail) - good
        except Exception:  # it may have left its traces: once more, without it
            good = known + fold.taken
