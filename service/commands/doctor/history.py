"""Replays a model's events and compares its snapshots, its outcomes and its line with the result, to the bit.

The line is that of the list of models: what lists show, and from where a load goes on.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from service.commands.doctor.checks import BACKUP, DROP, UNLISTED, Finding, Repair, Severity, statement
from service.commands.doctor.outcomes import Page, examine_outcomes
from service.engine.fleet.fold import Fold
from service.engine.fleet.live import Live
from service.engine.models.model import Model, model_from
from service.events import ModelCreated, ModelImported
from service.journal.codec import STATE_VERSION, decode_event, encode
from service.journal.protocol import Recorded
from service.journal.seals import Damaged
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.sealing import MODEL_COLUMNS, SEAL_MODEL, check_model, unseal_event

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, msgspec.MsgspecError)
"""What reading a damaged state, or applying a damaged event, may raise."""

BREAKS_TOLD_MAX = 5


class Break(NamedTuple):
    """Events are damaged or missing, the last of them with the number `through`."""

    through: int
    message: str


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
    breaks: list[Break] = field(default_factory=list)
    """Where events are damaged or missing."""

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


def examine_unlisted(connection: sqlite3.Connection) -> tuple[list[Finding], list[int]]:
    """Models that have events or snapshots and no line: those whose line can be rebuilt, and the others."""
    rows = f"SELECT model FROM event WHERE {UNLISTED} UNION SELECT model FROM snapshot WHERE {UNLISTED}"
    listed = "SELECT name FROM model WHERE id IN (SELECT model FROM event UNION SELECT model FROM snapshot)"
    taken = {name for (name,) in connection.execute(listed)}
    found, lost = [], []
    for (life,) in connection.execute(f"{rows} ORDER BY model DESC").fetchall():
        history = _read(connection, life, "")
        model = history.snapshots[max(history.snapshots)] if history.snapshots else None
        if history.is_whole:
            model = model_from(history.events[0].event)
        if model is None or model.name in taken:
            lost.append(life)
            continue
        taken.add(model.name)
        message = "its row in the list of models is missing"
        found.append(Finding(model.name, message, "--repair rebuilds it.", _new_line(life, model)))
    return found, lost


def _new_line(life: int, model: Model) -> Repair:
    """A line without a digest, which is written whole when it is looked at next."""

    def repair(connection: sqlite3.Connection) -> None:
        # A line of this name that nothing belongs to is this one, with a number that has changed.
        connection.execute("DELETE FROM model WHERE name = ?", (model.name,))
        connection.execute(
            "INSERT INTO model (id, name, created_at, settings, updated_at) VALUES (?,?,?,?,?)",
            (life, model.name, model.created_at, encode(model.settings), model.created_at),
        )

    return repair


def examine_model(connection: sqlite3.Connection, number: int, name: str) -> Iterator[Finding]:
    try:
        history = _read(connection, number, name)
        if history.breaks:
            finding = _give_up(history)
            yield finding
            if finding.repair is None:
                return
        replay = _replay(history, _beginning(history))
        if replay is not None and _gaps(history, replay) and _is_trimmed(history, replay):
            yield _note(name, "the events before its newest snapshot are no longer kept: nothing to compare")
            replay = _replay(history, max(history.snapshots))
    except UNREADABLE as error:
        yield Finding(name, f"its events cannot be replayed: {error}", BACKUP)
        return
    if replay is None:
        yield Finding(name, "neither its first events nor a readable snapshot remains", BACKUP)
        return
    for gap in _gaps(history, replay):
        yield Finding(name, gap, BACKUP)
        return
    yield from _examine_snapshots(history, replay)
    yield from examine_outcomes(number, name, history.events, history.pages, replay.live, replay.began_at,
                                max([*history.snapshots, *history.damaged], default=0))  # fmt: skip
    yield from _examine_line(connection, replay.live, is_whole=history.is_whole)


def _read(connection: sqlite3.Connection, number: int, name: str) -> History:
    history = History(number, name, [], {})
    for seq, state in connection.execute(
        "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq", (number,)
    ):
        try:
            content = state_of(connection, number, seq, state)
            history.snapshots[seq] = Model.from_bytes(content)
            if content[0] < STATE_VERSION:
                history.saved_by_older.add(seq)
        except UNREADABLE as error:
            history.damaged[seq] = f"{type(error).__name__}: {error}"
    for through, version, body in connection.execute(
        "SELECT through, version, body FROM outcome WHERE model = ? ORDER BY through", (number,)
    ):
        history.pages[through] = Page(number, through, version, body)
    _read_events(connection, history)
    return history


def _read_events(connection: sqlite3.Connection, history: History) -> None:
    """The events, and where they are damaged or one is missing."""
    follows = None
    for row in connection.execute(
        "SELECT seq, model, prediction_id, body, previous FROM event WHERE model = ? ORDER BY seq",
        (history.number,),
    ):
        seq, life, prediction_id, body, previous = row
        # Before the first that is kept others may have been trimmed, if a snapshot has what they did.
        if previous > max(history.snapshots, default=0) if follows is None else previous != follows:
            history.breaks.append(Break(previous, f"events are missing before event {seq}"))
        follows = seq
        try:
            event = decode_event(unseal_event(body, seq, life, prediction_id, previous))
        except UNREADABLE as error:
            history.breaks.append(Break(seq, str(error)))
            continue
        if (
            getattr(event, "prediction_id", None) or None
        ) != prediction_id:  # of what was forgotten it is empty
            history.breaks.append(Break(seq, f"event {seq} has the number of another event"))
            continue
        history.events.append(Recorded(seq, event))
    newest = _newest(connection, history.number)
    saved = max([*history.snapshots, *history.damaged], default=0)
    # The newest of those that are kept are never trimmed, unless all are.
    if max(newest, saved) > (saved if follows is None else follows):
        newest = max(newest, saved)
        history.breaks.append(Break(newest, f"events are missing: event {newest} existed"))


def _newest(connection: sqlite3.Connection, number: int) -> int:
    """The number of the newest event of a model, as its line has it."""
    row = connection.execute("SELECT newest FROM model WHERE id = ?", (number,)).fetchone()
    return int(row[0]) if row is not None else 0


def _give_up(history: History) -> Finding:
    """Let the events go that are damaged or missing, with those before them, if a snapshot has what they did.

    That is what trimming does. Events after the newest snapshot cannot be given up: the model would be another.
    """
    through = max(one.through for one in history.breaks)
    message = "; ".join([one.message for one in history.breaks[:BREAKS_TOLD_MAX]])
    if through > max(history.snapshots, default=0):
        return Finding(history.name, f"{message}: it is not served", BACKUP)
    gone = [recorded for recorded in history.events if recorded.seq <= through]
    history.events = history.events[len(gone) :]
    history.pages = {seq: page for seq, page in history.pages.items() if seq > through}

    def repair(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM event WHERE model = ? AND seq <= ?", (history.number, through))
        connection.execute("DELETE FROM outcome WHERE model = ? AND through <= ?", (history.number, through))

    return Finding(
        history.name,
        message,
        f"--repair discards the events up to {through}: a valid snapshot has their effect.",
        repair,
        f"the events of {history.name} up to {through}, {len(gone)} of them readable: they are no longer listed,"
        " and retries of their rounds are not recognised",
    )


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

    def take(_: Model, recorded: Recorded) -> None:
        while stops and stops[0] < recorded.seq:
            _stop(replay, stops.pop(0), history)
        live.apply_next(recorded.seq, recorded.event)

    Fold(live.model, take).run(each for each in history.events if each.seq > replay.began_at)
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
        f"events are missing before event {seq}: the replay gives version {version}, expected {expected[seq]}"
        for seq, version in replay.versions.items()
        if version != expected[seq]
    ]


def _is_trimmed(history: History, replay: Replay) -> bool:
    """Whether events after the replay's beginning were trimmed: trimming them deletes the page there too."""
    return not history.events or (not history.is_whole and replay.began_at not in history.pages)


def _examine_snapshots(history: History, replay: Replay) -> Iterator[Finding]:
    for seq, why in history.damaged.items():
        message = f"the snapshot after event {seq} cannot be read: {why}"
        # Without its page of outcomes it is unknown whether events before it were trimmed.
        is_derivable = seq > replay.began_at and (history.is_whole or seq in history.pages)
        if is_derivable or seq < max(history.snapshots, default=0):
            drop = statement("DELETE FROM snapshot WHERE model = ? AND seq = ?", history.number, seq)
            yield Finding(history.name, message, f"{DROP[:-1]}: the rest is consistent.", drop)
        else:
            yield Finding(history.name, message, BACKUP)
    for seq, state in replay.states.items():
        if state != history.snapshots[seq].to_bytes():
            message = f"the snapshot after event {seq} is not what the events up to it make"
            # Both are sealed, so one was wrong before that. Which one is unknown; clients have seen the snapshot.
            yield Finding(history.name, f"{message}; the service uses the snapshot", BACKUP)


def _note(where: str, message: str) -> Finding:
    return Finding(where, message, severity=Severity.note)


def _examine_line(connection: sqlite3.Connection, live: Live, *, is_whole: bool) -> Iterator[Finding]:
    """Compare the line of a model with its replay, unless it is stale: then the service brings it up to date itself.
    `is_whole`: none of its events was trimmed."""
    model, number = live.model, live.life
    (pending,) = connection.execute(
        "SELECT count(*) FROM pending p JOIN model m ON m.id = p.model WHERE m.id = ? AND p.at > m.voided_through",
        (number,),
    ).fetchone()
    counted = {
        "revealed": model.revealed, "mistakes": model.mistakes, "updates": model.updates,
        "expired": model.expired, "pending": pending,
    }  # fmt: skip
    row = connection.execute(f"SELECT {MODEL_COLUMNS}, digest FROM model WHERE id = ?", (number,)).fetchone()
    try:
        check_model(row)
    except Damaged as error:
        values = counted | {
            "name": model.name, "created_at": model.created_at, "settings": encode(model.settings),
            "updated_at": model.updated_at, "newest": live.seq,
            "ewma_error_rate": model.statistics.ewma.error_rate,
        }  # fmt: skip
        if is_whole:
            values["voided_through"] = live.voided_through
        loses = (
            "" if is_whole else f"the time up to which predictions of {model.name} are void, if there was one"
        )
        yield Finding(model.name, str(error), "--repair rebuilds it.", _update(number, values), loses)
        return
    is_late = (
        "SELECT EXISTS (SELECT 1 FROM event WHERE model = ? AND seq > (SELECT min(through) FROM summarised))"
    )
    if connection.execute(is_late, (number,)).fetchone()[0]:
        return
    said = dict(zip(MODEL_COLUMNS.replace(" ", "").split(","), row, strict=False))
    wrong = {name: count for name, count in counted.items() if said[name] != count}
    if wrong:
        words = ", ".join(f"{name} {said[name]} instead of {count}" for name, count in wrong.items())
        # Waiting predictions are not events, so a service that was killed may have counted them differently.
        severity = Severity.note if wrong.keys() <= {"expired", "pending"} else Severity.problem
        message = f"its row in the list of models has {words}"
        yield Finding(model.name, message, "--repair recounts.", _update(number, counted), severity=severity)


def _update(number: int, values: dict[str, Any]) -> Repair:
    def repair(connection: sqlite3.Connection) -> None:
        columns = ", ".join(f"{name} = ?" for name in values)
        connection.execute(f"UPDATE model SET {columns} WHERE id = ?", (*values.values(), number))
        connection.execute(f"{SEAL_MODEL} WHERE id = ?", (number,))

    return repair
