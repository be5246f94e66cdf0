"""Replays a model's events and compares its snapshots, outcomes and counts with the result, to the bit."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from service.commands.doctor.file import BACKUP
from service.commands.doctor.findings import Finding, Severity, statement
from service.commands.doctor.outcomes import Page, examine_outcomes
from service.engine.fleet.live import Live, model_from
from service.engine.model.model import Model
from service.events import ModelCreated, ModelImported
from service.journal.codec import STATE_VERSION, decode_event
from service.journal.protocol import Recorded
from service.journal.seals import unseal

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, msgspec.MsgspecError)
"""What reading a damaged state, or applying a damaged event, may raise."""


@dataclass(slots=True)
class History:
    """All that the file has of one model. Pages and snapshots are keyed by the last event that they cover."""

    number: int
    """Its `life`, the key of its rows."""
    name: str
    events: list[Recorded]
    pages: dict[int, Page]
    """Pages of outcomes."""
    snapshots: dict[int, Model] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    """Snapshots that cannot be read, and why."""
    saved_by_older: set[int] = field(default_factory=set)
    """Snapshots that an older version of the program has saved."""

    @property
    def is_whole(self) -> bool:
        """Whether the events begin with the one that made the model: none was trimmed."""
        return bool(self.events) and isinstance(self.events[0].event, ModelCreated | ModelImported)


@dataclass(slots=True)
class Replay:
    """The result of a replay. `versions` and `states` are those at the pages and snapshots, by sequence number."""

    live: Live
    """The model at the end."""
    began_at: int
    """The last event before the replay."""
    versions: dict[int, int]
    states: dict[int, bytes]


def examine_model(connection: sqlite3.Connection, number: int, name: str) -> Iterator[Finding]:
    try:
        history = _read(connection, number, name)
        replay = _replay(history, _beginning(history))
        if replay is not None and _gaps(history, replay) and _is_trimmed(history, replay):
            yield _note(name, "the events before its newest snapshot are no longer kept: nothing to compare")
            replay = _replay(history, max(history.snapshots))
    except UNREADABLE as error:
        yield Finding(name, f"its events cannot be replayed: {error}", BACKUP)
        return
    if replay is None:
        yield Finding(name, "neither its beginning nor a snapshot that can be read is left", BACKUP)
        return
    for gap in _gaps(history, replay):
        yield Finding(name, gap, BACKUP)
        return
    yield from _examine_snapshots(history, replay)
    yield from examine_outcomes(number, name, history.events, history.pages, replay.live, replay.began_at,
                                max([*history.snapshots, *history.damaged], default=0))  # fmt: skip
    yield from _examine_counts(connection, history, replay.live)


def _read(connection: sqlite3.Connection, number: int, name: str) -> History:
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
    history = History(number, name, events, pages)
    for seq, state in connection.execute(
        "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq", (number,)
    ):
        try:
            content = unseal(state)
            history.snapshots[seq] = Model.from_bytes(content)
            if content[0] < STATE_VERSION:
                history.saved_by_older.add(seq)
        except UNREADABLE as error:
            history.damaged[seq] = f"{type(error).__name__}: {error}"
    return history


def _beginning(history: History) -> int | None:
    """The snapshot from which to replay; None: from the first event.

    An older version of the program may have counted differently: then only what came after its snapshot is compared.
    """
    if history.saved_by_older:
        return max(history.saved_by_older)
    begun_by_older = [seq for seq, model in history.snapshots.items() if model.stepped_from is not None]
    if history.is_whole and not begun_by_older:
        return None
    return min(begun_by_older or history.snapshots, default=None)


def _replay(history: History, snapshot: int | None) -> Replay | None:
    """From the beginning, or from a snapshot, to the end."""
    if snapshot is not None:
        live = Live(Model.from_bytes(history.snapshots[snapshot].to_bytes()), snapshot, history.number)
    elif history.is_whole:
        live = Live(model_from(history.events[0].event), history.events[0].seq, history.number)
    else:
        return None
    replay = Replay(live, live.seq, {}, {})
    stops = sorted(seq for seq in {*history.pages, *history.snapshots} if seq >= replay.began_at)
    for recorded in history.events:
        while stops and stops[0] < recorded.seq and recorded.seq > replay.began_at:
            _stop(replay, stops.pop(0), history)
        live.apply(recorded.seq, recorded.event)
    while stops:
        _stop(replay, stops.pop(0), history)
    return replay


def _stop(replay: Replay, seq: int, history: History) -> None:
    replay.versions[seq] = replay.live.model.version
    if seq in history.snapshots:
        replay.states[seq] = replay.live.model.to_bytes()


def _gaps(history: History, replay: Replay) -> list[str]:
    """Messages about missing events: places where the replay has come to another version than the model had."""
    expected = {seq: page.version for seq, page in history.pages.items()}
    expected |= {seq: model.version for seq, model in history.snapshots.items()}
    return [
        f"events are missing before event {seq}: the replay gives version {version}, and it was {expected[seq]}"
        for seq, version in replay.versions.items()
        if version != expected[seq]
    ]


def _is_trimmed(history: History, replay: Replay) -> bool:
    """Whether events after the replay's beginning were trimmed: trimming them deletes the page there too."""
    return not history.is_whole and replay.began_at not in history.pages


def _examine_snapshots(history: History, replay: Replay) -> Iterator[Finding]:
    for seq, why in history.damaged.items():
        message = f"the snapshot after event {seq} cannot be read: {why}"
        # Without its page of outcomes it is unknown whether events before it were trimmed.
        is_derivable = seq > replay.began_at and (history.is_whole or seq in history.pages)
        if is_derivable or seq < max(history.snapshots, default=0):
            drop = statement("DELETE FROM snapshot WHERE model = ? AND seq = ?", history.number, seq)
            yield Finding(history.name, message, "--repair drops it: the rest tells the same.", drop)
        else:
            yield Finding(history.name, message, BACKUP)
    for seq, state in replay.states.items():
        if state != history.snapshots[seq].to_bytes():
            message = f"the snapshot after event {seq} is not what the events up to it make"
            if history.is_whole:
                drop = statement("DELETE FROM snapshot WHERE model = ? AND seq = ?", history.number, seq)
                yield Finding(history.name, message, "--repair drops it: the events take its place.", drop)
            else:
                yield Finding(history.name, f"{message} from the snapshot before", BACKUP)


def _examine_counts(connection: sqlite3.Connection, history: History, live: Live) -> Iterator[Finding]:
    """Compare the model's summary, unless it is stale: then the service brings it up to date itself."""
    (is_late,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM event WHERE model = ? AND seq > (SELECT min(through) FROM summarised))",
        (history.number,),
    ).fetchone()
    if is_late:
        return
    (pending,) = connection.execute(
        "SELECT count(*) FROM pending p JOIN model m ON m.id = p.model WHERE m.id = ? AND p.at > m.voided_through",
        (history.number,),
    ).fetchone()
    model = live.model
    counted = {
        "revealed": model.revealed, "mistakes": model.mistakes, "updates": model.updates,
        "expired": model.expired, "pending": pending,
    }  # fmt: skip
    row = connection.execute(
        f"SELECT {', '.join(counted)} FROM model WHERE id = ?", (history.number,)
    ).fetchone()
    wrong = [f"{name} {said} instead of {counted[name]}" for name, said in zip(counted, row, strict=True)
             if said != counted[name]]  # fmt: skip
    if wrong:
        # Waiting predictions are not events, so a service that was killed may have counted them differently.
        is_serious = row[:3] != tuple(counted.values())[:3]
        yield Finding(
            history.name,
            f"its line in the list of models says {', '.join(wrong)}",
            "--repair counts anew.",
            statement(
                f"UPDATE model SET {', '.join(f'{name} = ?' for name in counted)} WHERE id = ?",
                *counted.values(),
                history.number,
            ),
            Severity.problem if is_serious else Severity.note,
        )


def _note(where: str, message: str) -> Finding:
    return Finding(where, message, severity=Severity.note)
