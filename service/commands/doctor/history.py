"""A model's events, replayed, and what was derived from them, compared to the bit."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from service.commands.doctor.file import BACKUP
from service.commands.doctor.findings import Finding, Weight, statement
from service.commands.doctor.outcomes import Page, examine_outcomes
from service.engine.fleet.live import Live, model_from
from service.engine.model.model import Model
from service.events import ModelCreated, ModelImported
from service.journal.codec import STATE_VERSION, decode_event
from service.journal.protocol import Recorded
from service.journal.seals import unseal

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, msgspec.MsgspecError)
"""What reading a damaged state, or applying a damaged event, may end in."""


@dataclass(slots=True)
class Papers:
    """All that the file says about one model."""

    number: int
    name: str
    events: list[Recorded]
    pages: dict[int, Page]
    snapshots: dict[int, Model] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    """Snapshots that cannot be read, and why."""
    saved_by_older: set[int] = field(default_factory=set)
    """Snapshots that an older version of the program has saved."""

    @property
    def is_whole(self) -> bool:
        return bool(self.events) and isinstance(self.events[0].event, ModelCreated | ModelImported)


@dataclass(slots=True)
class Replay:
    """Where a replay began and ended; its versions and states on the way, by sequence number."""

    live: Live
    began_at: int
    versions: dict[int, int]
    states: dict[int, bytes]


def examine_model(connection: sqlite3.Connection, number: int, name: str) -> Iterator[Finding]:
    try:
        papers = _read(connection, number, name)
        replay = _replay(papers, _beginning(papers))
        if replay is not None and _gaps(papers, replay) and _is_trimmed(papers, replay):
            yield _note(name, "the events before its newest snapshot are no longer kept: nothing to compare")
            replay = _replay(papers, max(papers.snapshots))
    except UNREADABLE as error:
        yield Finding(name, f"its events cannot be replayed: {error}", BACKUP)
        return
    if replay is None:
        yield Finding(name, "neither its beginning nor a snapshot that can be read is left", BACKUP)
        return
    for gap in _gaps(papers, replay):
        yield Finding(name, gap, BACKUP)
        return
    yield from _examine_snapshots(papers, replay)
    yield from examine_outcomes(number, name, papers.events, papers.pages, replay.live, replay.began_at,
                                max([*papers.snapshots, *papers.damaged], default=0))  # fmt: skip
    yield from _examine_counts(connection, papers, replay.live)


def _read(connection: sqlite3.Connection, number: int, name: str) -> Papers:
    events: list[Recorded] = []
    for seq, prediction_id, body in connection.execute(
        "SELECT seq, prediction_id, body FROM event WHERE model = ? ORDER BY seq", (number,)
    ):
        try:
            event = decode_event(body)
        except msgspec.MsgspecError as error:
            raise ValueError(f"event {seq} is damaged ({error})") from None
        if event.model != name or getattr(event, "prediction_id", None) != prediction_id:
            raise ValueError(f"event {seq} says that it is another")
        events.append(Recorded(seq, event))
    pages = {
        through: Page(through, version, body)
        for through, version, body in connection.execute(
            "SELECT through, version, body FROM outcome WHERE model = ? ORDER BY through", (number,)
        )
    }
    papers = Papers(number, name, events, pages)
    for seq, state in connection.execute(
        "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq", (number,)
    ):
        try:
            content = unseal(state)
            papers.snapshots[seq] = Model.from_bytes(content)
            if content[0] < STATE_VERSION:
                papers.saved_by_older.add(seq)
        except UNREADABLE as error:
            papers.damaged[seq] = f"{type(error).__name__}: {error}"
    return papers


def _beginning(papers: Papers) -> int | None:
    """The snapshot from which to replay; None: from the first event.

    What an older version has counted need not be what this one would: then only what came after is compared.
    """
    if papers.saved_by_older:
        return max(papers.saved_by_older)
    begun_by_older = [seq for seq, model in papers.snapshots.items() if model.stepped_from is not None]
    if papers.is_whole and not begun_by_older:
        return None
    return min(begun_by_older or papers.snapshots, default=None)


def _replay(papers: Papers, snapshot: int | None) -> Replay | None:
    """From the beginning, or from a snapshot, to the end."""
    if snapshot is not None:
        live = Live(Model.from_bytes(papers.snapshots[snapshot].to_bytes()), snapshot, papers.number)
    elif papers.is_whole:
        live = Live(model_from(papers.events[0].event), papers.events[0].seq, papers.number)
    else:
        return None
    replay = Replay(live, live.seq, {}, {})
    stops = sorted(seq for seq in {*papers.pages, *papers.snapshots} if seq >= replay.began_at)
    for recorded in papers.events:
        while stops and stops[0] < recorded.seq and recorded.seq > replay.began_at:
            _stop(replay, stops.pop(0), papers)
        live.apply(recorded.seq, recorded.event)
    while stops:
        _stop(replay, stops.pop(0), papers)
    return replay


def _stop(replay: Replay, seq: int, papers: Papers) -> None:
    replay.versions[seq] = replay.live.model.version
    if seq in papers.snapshots:
        replay.states[seq] = replay.live.model.to_bytes()


def _gaps(papers: Papers, replay: Replay) -> list[str]:
    """Where the replay has made another number of steps than there were: events are missing."""
    expected = {seq: page.version for seq, page in papers.pages.items()}
    expected |= {seq: model.version for seq, model in papers.snapshots.items()}
    return [
        f"events are missing before event {seq}: the replay gives version {version}, and it was {expected[seq]}"
        for seq, version in replay.versions.items()
        if version != expected[seq]
    ]


def _is_trimmed(papers: Papers, replay: Replay) -> bool:
    """Whether events after the replay's beginning were forgotten on purpose: then its page was too."""
    return not papers.is_whole and replay.began_at not in papers.pages


def _examine_snapshots(papers: Papers, replay: Replay) -> Iterator[Finding]:
    for seq, why in papers.damaged.items():
        words = f"the snapshot after event {seq} cannot be read: {why}"
        # Without its page of outcomes there is no telling whether events before it were forgotten.
        is_derivable = seq > replay.began_at and (papers.is_whole or seq in papers.pages)
        if is_derivable or seq < max(papers.snapshots, default=0):
            drop = statement("DELETE FROM snapshot WHERE model = ? AND seq = ?", papers.number, seq)
            yield Finding(papers.name, words, "--repair drops it: the rest tells the same.", drop)
        else:
            yield Finding(papers.name, words, BACKUP)
    for seq, state in replay.states.items():
        if state != papers.snapshots[seq].to_bytes():
            words = f"the snapshot after event {seq} is not what the events up to it make"
            if papers.is_whole:
                drop = statement("DELETE FROM snapshot WHERE model = ? AND seq = ?", papers.number, seq)
                yield Finding(papers.name, words, "--repair drops it: the events take its place.", drop)
            else:
                yield Finding(papers.name, f"{words} from the snapshot before", BACKUP)


def _examine_counts(connection: sqlite3.Connection, papers: Papers, live: Live) -> Iterator[Finding]:
    """The counts that lists are sorted by; the service brings them up to date itself after later events."""
    (is_late,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM event WHERE model = ? AND seq > (SELECT min(through) FROM summarised))",
        (papers.number,),
    ).fetchone()
    if is_late:
        return
    (pending,) = connection.execute(
        "SELECT count(*) FROM pending p JOIN model m ON m.id = p.model WHERE m.id = ? AND p.at > m.voided_through",
        (papers.number,),
    ).fetchone()
    model = live.model
    counted = {
        "revealed": model.revealed, "mistakes": model.mistakes, "updates": model.updates,
        "expired": model.expired, "pending": pending,
    }  # fmt: skip
    row = connection.execute(
        f"SELECT {', '.join(counted)} FROM model WHERE id = ?", (papers.number,)
    ).fetchone()
    wrong = [f"{name} {said} instead of {counted[name]}" for name, said in zip(counted, row, strict=True)
             if said != counted[name]]  # fmt: skip
    if wrong:
        # Predictions are no events: a service that was killed may have counted them differently.
        is_serious = row[:3] != tuple(counted.values())[:3]
        yield Finding(
            papers.name,
            f"its line in the list of models says {', '.join(wrong)}",
            "--repair counts anew.",
            statement(
                f"UPDATE model SET {', '.join(f'{name} = ?' for name in counted)} WHERE id = ?",
                *counted.values(),
                papers.number,
            ),
            Weight.problem if is_serious else Weight.note,
        )


def _note(where: str, words: str) -> Finding:
    return Finding(where, words, weight=Weight.note)
