"""Which models need a look: the error has risen, labels stopped coming, predictions were evicted, the bound is
exceeded, one is rebuilt after corrections, or damaged.

Of the models in memory, and of those that are set aside: what is neither has not been used for long.
"""

from math import sqrt

import msgspec

from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.runtime.cooperative import Turns

RECENT_ROUNDS = 100
RISEN_DEVIATIONS = 4.0
"""An error over the last rounds that is so many standard deviations above the one over all rounds has risen."""

LATE_FACTOR = 3.0
LATE_SECONDS_MIN = 1800.0
"""Labels have stopped if nothing was revealed for this time, and for so many times the delay that 99 of 100 labels do
not exceed, while predictions wait. The alert `NovikoffLabelsStopped` has the same figures."""

EVICTED_US = 86_400_000_000
"""How long after an eviction of predictions it is reported."""


class Reason(msgspec.Struct, frozen=True):
    """Why a model needs a look: a word for programs, and a sentence's end for people."""

    kind: str
    detail: str


class Noticed(msgspec.Struct, frozen=True):
    model: str
    reasons: list[Reason]


class Attention:
    """Looks through the models in memory."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def find(self, prefix: str, now: int) -> list[Noticed]:
        """The models that need a look and whose names begin so: the damaged first, then those with most reasons."""
        turns = Turns()
        found = [
            Noticed(name, [Reason("damaged", why)])
            for name, why in self._fleet.set_aside.reasons()
            if name.startswith(prefix)
        ]
        rest = []
        for live in list(self._fleet.loaded.values()):
            await turns.give()
            if live.model.name.startswith(prefix) and (reasons := reasons_of(live, now)):
                rest.append(Noticed(live.model.name, reasons))
        return found + sorted(rest, key=lambda each: (-len(each.reasons), each.model))


def reasons_of(live: Live, now: int) -> list[Reason]:
    model = live.model
    told = (
        ("drift", "the error drifts" if model.statistics.drift_state == "drift" else None),
        ("error_risen", _risen(model)),
        ("labels_stopped", _stopped(live, now)),
        ("evicted", _evicted(live, now)),
        ("bound_exceeded", _exceeded(model)),
        ("rebuilding", _rebuilding(model)),
    )
    return [Reason(kind, detail) for kind, detail in told if detail is not None]


def _risen(model: Model) -> str | None:
    statistics = model.statistics
    rounds = statistics.revealed
    if rounds < 2 * RECENT_ROUNDS:
        return None
    recent = statistics.recent.mistakes(rounds, RECENT_ROUNDS) / RECENT_ROUNDS
    before = statistics.mistakes / rounds
    usual = max(
        before * (1 - before), 1 / RECENT_ROUNDS
    )  # of a model that was never wrong, some luck is granted
    if recent - before <= RISEN_DEVIATIONS * sqrt(usual / RECENT_ROUNDS):
        return None
    return f"{recent:.1%} of the last {RECENT_ROUNDS} rounds were wrong, {before:.1%} of all"


def _stopped(live: Live, now: int) -> str | None:
    model = live.model
    oldest = live.oldest_waiting_at
    if oldest is None:
        return None
    usual = model.statistics.delay.seconds()["p99"] or 0.0
    silent = (now - max(model.updated_at, oldest)) / 1e6
    if silent <= max(LATE_SECONDS_MIN, LATE_FACTOR * usual):
        return None
    return f"no label for {silent / 60:,.0f} minutes, and {live.waiting:,} predictions are pending"


def _evicted(live: Live, now: int) -> str | None:
    evictions = live.model.evicted
    if evictions is None or now - evictions.at > EVICTED_US:
        return None
    return f"{evictions.count:,} predictions were evicted before their labels arrived: {evictions.limit} was reached"


def _exceeded(model: Model) -> str | None:
    if model.settings["declared_margin"] is None or model.bound is None:
        return None
    return "the declared margin is refuted" if model.bound_report()["verdict"] == "exceeded" else None


def _rebuilding(model: Model) -> str | None:
    amended = model.amended
    return (
        "the model is being rebuilt after corrections"
        if amended is not None and amended.is_unfinished
        else None
    )
