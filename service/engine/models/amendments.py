"""What is known of a model's history beside what it learned: corrections, forgotten tags, evicted predictions.

It is part of the fold, but exports, forks and rollbacks go without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from service.events import (
    Certainty,
    Label,
    ModelRebuilt,
    Prediction,
    PredictionsExpired,
    RoundCorrected,
    RoundRevealed,
    TagErased,
    TagForgotten,
)
from service.learning.saved import Count, Part

DUE_MAX = 1_000
"""So many corrections may wait for a rebuild. Replicas that take some at the same moment may exceed it a little."""

SPANS_MAX = 64


class ServedAgain(msgspec.Struct, frozen=True, array_like=True):
    """What a waiting prediction would have been served with, had the corrections come first."""

    prediction_id: str
    at: int
    """When it was served."""
    served: Label | None
    score: float
    version: int
    updates: int
    certainty: Certainty | None


@dataclass(slots=True, eq=False)
class Amendments(Part):
    """The corrections of a model, in the order in which they came."""

    IS_LIST = False

    recorded: int = 0
    """How many there were."""
    in_force: int = 0
    """How many of these, counted from the first, the model was rebuilt with."""
    due: list[int] = field(default_factory=list)
    """The versions right after the rounds that the others are about."""
    erasing: list[int] | None = None
    """Events whose content has to go from the journal once the model is without it; None if there is nothing."""
    forgettings: int = 0
    """How many times something was forgotten."""
    voided: int = 0
    """Waiting predictions that do not count."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """From which version on, and before which, states are of a world that a rebuild has replaced."""
    served_again: dict[str, ServedAgain] = field(default_factory=dict)
    """By id, predictions that waited during a rebuild and wait still; a state has a list of them."""

    @property
    def is_due(self) -> bool:
        return self.in_force < self.recorded

    @property
    def is_unfinished(self) -> bool:
        """Whether there is anything to be done for it."""
        return self.is_due or self.erasing is not None

    @property
    def needed(self) -> int | None:
        """The version from which a rebuild that is due has to begin, or an older one; None if none is due."""
        return min(self.due) - 1 if self.due else None

    def record(self, event: RoundCorrected) -> None:
        self.recorded += 1
        self.due.append(event.version)

    def forget(self, event: TagForgotten) -> None:
        self.forgettings += 1
        self.erasing = sorted({*(self.erasing or ()), *event.events})
        if event.rounds:
            self.recorded += 1
            self.due.append(event.version)

    def erased(self, event: TagErased) -> None:
        if event.through == self.forgettings:  # else there is more by now
            self.erasing = None

    def spoils(self, version: int) -> int | None:
        """From which version on states like that of this version were replaced; None if it is as it should be."""
        return min((first for first, end in self.spans if first <= version < end), default=None)

    def rebuilt(self, event: ModelRebuilt, state: Any, version: int) -> None:
        """Take note of a rebuild that has led to a version. `state` has the predictions that were served again, by a
        model that counted its versions in its own way."""
        del self.due[: event.through - self.in_force]
        self.in_force = event.through
        self.spans.append((event.since, version))
        if len(self.spans) > SPANS_MAX:  # the oldest, of which the journal keeps least
            (first, _), (other, end) = self.spans[:2]
            self.spans[:2] = [(min(first, other), end)]
        later = version - state["version"]
        made = Amendments.restore(state["amended"]).served_again
        self.served_again = {name: replace(each, version=each.version + later) for name, each in made.items()}

    def as_served(self, event: RoundRevealed) -> RoundRevealed:
        """The reveal with what the prediction would have been served with, if a rebuild has served it again."""
        again = self.served_again.pop(event.prediction_id, None)
        return event if again is None else with_served(event, again)

    def certainty_of(self, prediction: Prediction) -> Certainty | None:
        again = self.served_again.get(prediction.prediction_id)
        return prediction.certainty if again is None else again.certainty

    def expire(self, through: int) -> None:
        """Predictions made up to a time wait no longer."""
        self.served_again = {name: each for name, each in self.served_again.items() if each.at > through}

    def report(self) -> dict[str, Any]:
        return {
            "recorded": self.recorded,
            "in_force": self.in_force,
            "voided": self.voided,
            "rebuilding": self.is_unfinished,
        }

    def state(self) -> dict[str, Any]:
        return {**Part.state(self), "served_again": list(self.served_again.values())}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Amendments:
        made = msgspec.convert(state.get("served_again", ()), list[ServedAgain])
        again = {each.prediction_id: each for each in made}
        return super(Amendments, cls).restore({**state, "served_again": again})


def with_served(event: RoundRevealed, again: ServedAgain) -> RoundRevealed:
    return replace(
        event,
        served=again.served,
        score=again.score,
        version_seen=again.version,
        updates_seen=again.updates,
        certainty=again.certainty,
    )


@dataclass(slots=True, eq=False)
class Evictions(Part):
    """How many there were, and what is known of the last ones."""

    IS_LIST = False

    at: Count = 0
    """When the last of them was evicted."""
    count: Count = 0
    limit: Annotated[str, Meta(max_length=64)] = ""
    """The setting that was reached."""
    through: Count = 0
    """When the newest of them was made."""

    def record(self, event: PredictionsExpired) -> None:
        self.count += event.evicted
        self.through = max(self.through, event.through)
        self.at, self.limit = event.at, event.limit
