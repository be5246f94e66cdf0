"""Checks of the pages of outcomes, from which a retry gets its first answer again."""

import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from service.commands.doctor.checks import Finding, Repair
from service.engine.fleet.live import Live
from service.engine.models.outcomes import Outcome, OutcomeLog
from service.events import ModelRebuilt, RoundErased, RoundLearned, RoundRevealed
from service.journal.protocol import Recorded
from service.journal.sqlite.sealing import seal_outcomes, unseal_outcomes


@dataclass(frozen=True, slots=True)
class Page:
    """A row of the table `outcome`: the outcomes up to the event `through`, and the model's version at it."""

    life: int
    through: int
    version: int
    body: bytes

    def log(self) -> OutcomeLog:
        """Its outcomes; none if it is damaged."""
        try:
            return OutcomeLog(unseal_outcomes(self.body, self.life, self.through, self.version))
        except ValueError:
            return OutcomeLog()


def examine_outcomes(
    number: int,
    name: str,
    events: list[Recorded],
    pages: dict[int, Page],
    live: Live,
    began_at: int,
    newest_snapshot: int,
) -> Iterator[Finding]:
    """Whether every round that a snapshot covers has its outcome, the same as in the replay."""
    logs = {through: page.log() for through, page in pages.items()}
    places = sorted({*logs, newest_snapshot} if newest_snapshot else logs)
    lost: dict[int, int] = defaultdict(int)
    untold = _between_erased_and_rebuilt(events)
    for seq in _rounds(events):
        if seq > newest_snapshot:
            break
        if seq in untold:
            continue
        place = places[bisect_left(places, seq)]
        found = logs[place].find(seq) if place in logs else None
        if found is None or (seq > began_at and found != live.outcomes.find(seq)):
            lost[place] += 1
    for place, count in lost.items():
        before = places[places.index(place) - 1] if place != places[0] else 0
        can_be_told = before >= began_at or began_at <= events[0].seq
        yield Finding(
            name,
            f"the outcomes of {count} rounds up to event {place} are missing or wrong: retries get no response",
            "--repair rebuilds them by the replay." if can_be_told else "",
            _rewrite(number, place, _between(events, live, before, place)) if can_be_told else None,
        )


def _between_erased_and_rebuilt(events: list[Recorded]) -> set[int]:
    """Rounds after one that was forgotten, up to the rebuild for that: what came of them cannot be found out again."""
    untold: set[int] = set()
    since: list[int] | None = None
    for recorded in events:
        if isinstance(recorded.event, RoundErased) and recorded.event.rounds and since is None:
            since = []
        elif since is not None:
            since.append(recorded.seq)
        if isinstance(recorded.event, ModelRebuilt) and since is not None:
            untold.update(since)
    return untold


def _rounds(events: list[Recorded]) -> Iterator[int]:
    """The rounds that can be retried: those with an id."""
    for recorded in events:
        event = recorded.event
        if isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id is not None:
            yield recorded.seq


def _between(events: list[Recorded], live: Live, after: int, through: int) -> list[tuple[int, Outcome]]:
    found = ((seq, live.outcomes.find(seq)) for seq in _rounds(events) if after < seq <= through)
    return [(seq, outcome) for seq, outcome in found if outcome is not None]


def _rewrite(number: int, through: int, outcomes: list[tuple[int, Outcome]]) -> Repair:
    log = OutcomeLog()
    for seq, outcome in outcomes:
        log.add(seq, outcome)
    version = outcomes[-1][1].version
    body = log.tobytes()

    def repair(connection: sqlite3.Connection) -> None:
        changed = connection.execute(
            "UPDATE outcome SET body = seal_outcomes(?, model, through, version) WHERE model = ? AND through = ?",
            (body, number, through),
        ).rowcount
        if not changed:
            row = (number, through, version, seal_outcomes(body, number, through, version))
            connection.execute("INSERT INTO outcome VALUES (?,?,?,?)", row)

    return repair
