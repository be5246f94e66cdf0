"""What the SQLite journal answers. Each function runs in a reader thread, on a connection to itself."""

import logging
import sqlite3
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from service.events import Label, Prediction
from service.journal.codec import StateBytes, decode_event, decode_prediction
from service.journal.protocol import (
    PENDING_LOADED_BYTES_MAX,
    PENDING_LOADED_MAX,
    Listed,
    Milestone,
    Overdue,
    OwnTime,
    Page,
    Recorded,
    Resting,
    StoredModel,
    Summary,
    Totals,
    WaitingPrediction,
    own_ttl_us,
)
from service.journal.seals import Damaged
from service.journal.sqlite.large_snapshots import state_of
from service.journal.sqlite.sealing import (
    MODEL_COLUMNS,
    check_model,
    unseal_event,
    unseal_outcomes,
    unseal_pending,
)

log = logging.getLogger(__name__)

Row = tuple[Any, ...]


_EVENT = "seq, model, prediction_id, previous, body"
_PENDING = "prediction_id, model, at, body"


def newest_time(connection: sqlite3.Connection) -> int:
    """Of the newest event, or of the newest prediction if that is later."""
    row = connection.execute(f"SELECT {_EVENT} FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    (predicted,) = connection.execute("SELECT max(at) FROM pending").fetchone()
    return max(_event(row).event.at if row else 0, predicted or 0)


def find(connection: sqlite3.Connection, prediction_id: str) -> WaitingPrediction | Recorded | None:
    connection.execute("BEGIN")  # one view for all questions
    try:
        return _find(connection, prediction_id)
    finally:
        connection.execute("COMMIT")


def _find(connection: sqlite3.Connection, prediction_id: str) -> WaitingPrediction | Recorded | None:
    row = _look_up(connection, "event", _EVENT, prediction_id, _event)
    if row is not None and _lives(connection, row[1]):
        return _event(row)
    row = _look_up(connection, "pending", _PENDING, prediction_id, _prediction)
    if row is not None and _lives(connection, row[1]):
        return WaitingPrediction(_prediction(row), row[1])
    return None


def recorded(connection: sqlite3.Connection, life: int, event_id: str) -> Recorded | None:
    row = _look_up(connection, "event", _EVENT, event_id, _event)
    return _event(row) if row is not None and row[1] == life else None


def _lives(connection: sqlite3.Connection, life: int) -> bool:
    """Deleted models leave rows behind that are removed later: see `deferred_deletes`."""
    if connection.execute("SELECT 1 FROM model WHERE id = ?", (life,)).fetchone() is not None:
        return True
    if connection.execute("SELECT 1 FROM ended WHERE life = ?", (life,)).fetchone() is None:
        raise Damaged(f"the row of the model that event {life} created is missing")
    return False


def _look_up(
    connection: sqlite3.Connection, table: str, columns: str, key: str, check: Callable[[Row], object],
    name: str = "prediction_id",
) -> Row | None:  # fmt: skip
    """The row with this key. If there is none, its neighbours in the index are checked.

    An entry of an index whose key has changed stays where it was, next to the place where it is looked for. So if the
    row is there and cannot be found, one of the neighbours is damaged.
    """
    select = f"SELECT {columns} FROM {table} WHERE {name}"
    row: Row | None = connection.execute(f"{select} >= ? ORDER BY {name} LIMIT 1", (key,)).fetchone()
    if row is not None and row[columns.split(", ").index(name)] == key:
        return row
    for neighbour in (
        row,
        connection.execute(f"{select} < ? ORDER BY {name} DESC LIMIT 1", (key,)).fetchone(),
    ):
        if neighbour is not None:
            check(neighbour)
    return None


def _event(row: Row) -> Recorded:
    seq, life, prediction_id, previous, sealed = row
    return Recorded(seq, decode_event(unseal_event(sealed, seq, life, prediction_id, previous)))


def _prediction(row: Row) -> Prediction:
    prediction_id, life, at, sealed = row
    return decode_prediction(unseal_pending(sealed, prediction_id, life, at))


def model_row(connection: sqlite3.Connection, name: str) -> Row | None:
    """The columns of the row of a model."""
    columns = f"{MODEL_COLUMNS}, digest"
    row = _look_up(connection, "model", columns, name, check_model, "name")
    return check_model(row) if row is not None else None


def overdue(
    connection: sqlite3.Connection, after: int, through: int, limit: int, own: bool = False
) -> tuple[list[Overdue], int]:
    found: dict[int, Overdue] = {}
    has_own: dict[int, bool] = {}
    newest = after
    for life, at, name, voided_through, settings in connection.execute(
        "SELECT p.model, p.at, m.name, m.voided_through, m.settings FROM"
        " (SELECT model, at FROM pending WHERE at > ? AND at <= ? ORDER BY at LIMIT ?) p"
        " LEFT JOIN model m ON m.id = p.model ORDER BY p.at",
        (after, through, limit),
    ):
        newest = at
        if name is None or at <= voided_through:
            continue
        if not own and life not in has_own:
            has_own[life] = own_ttl_us(_settings(settings)) is not None
        if own or not has_own[life]:
            before = found.get(life)
            found[life] = Overdue(name, life, before.count + 1 if before else 1, at)
    return list(found.values()), newest


def overdue_of(connection: sqlite3.Connection, life: int, through: int) -> tuple[Overdue | None, int | None]:
    row = connection.execute("SELECT name, voided_through FROM model WHERE id = ?", (life,)).fetchone()
    if row is None:
        return None, None
    name, voided_through = row
    count, newest = connection.execute(
        "SELECT count(*), max(at) FROM pending WHERE model = ? AND at > ? AND at <= ?",
        (life, voided_through, through),
    ).fetchone()
    (oldest,) = connection.execute(
        "SELECT min(at) FROM pending WHERE model = ? AND at > ?", (life, max(voided_through, through))
    ).fetchone()
    return (Overdue(name, life, count, newest) if count else None), oldest


def own_times(connection: sqlite3.Connection) -> list[OwnTime]:
    rows = connection.execute(
        "SELECT m.name, m.id, m.settings, p.oldest FROM"
        " (SELECT model, min(at) AS oldest FROM pending GROUP BY model) p JOIN model m ON m.id = p.model"
    )
    return [
        OwnTime(name, life, ttl_us, oldest)
        for name, life, settings, oldest in rows
        if (ttl_us := own_ttl_us(_settings(settings))) is not None
    ]


def _settings(body: bytes) -> dict[str, Any]:
    """The settings of a model; none of a line that is damaged, which the next load of the model reports."""
    try:
        return msgspec.msgpack.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def has_pending(connection: sqlite3.Connection, through: int) -> bool:
    """Whether there is a prediction of up to this time."""
    return (
        connection.execute("SELECT 1 FROM pending WHERE at <= ? LIMIT 1", (through,)).fetchone() is not None
    )


def load(connection: sqlite3.Connection, model: str, all_pending: bool = False) -> StoredModel | None:
    """The model with the newest of its waiting predictions, or all of them; of the others, their ids and times."""
    connection.execute("BEGIN")  # one view for all four questions
    try:
        row = model_row(connection, model)
        if row is None:
            return None
        number, voided_through, newest = row[0], row[4], row[11]
        seq, state, tail = _state_and_tail(connection, number, model)
        if newest > max(seq, tail[-1].seq if tail else 0):
            raise Damaged(f"events of {model} are missing: event {newest} existed")
        pending = _newest_pending(connection, number, voided_through, no_limit=all_pending)
        until = (pending[0].at, pending[0].prediction_id) if pending else (voided_through, "")
        asks = _settings(row[3]).get("ask") is not None
        resting = _resting(connection, number, voided_through, until, asks)
        return StoredModel(state, seq, tail, pending, voided_through, number, resting)
    finally:
        connection.execute("COMMIT")


def _newest_pending(
    connection: sqlite3.Connection, life: int, voided_through: int, *, no_limit: bool
) -> list[Prediction]:
    newest: list[Prediction] = []
    size = 0
    most = -1 if no_limit else PENDING_LOADED_MAX
    for row in connection.execute(
        f"SELECT {_PENDING} FROM pending WHERE model = ? AND at > ? ORDER BY at DESC, prediction_id DESC LIMIT ?",
        (life, voided_through, most),
    ):
        size += len(row[3])
        if newest and size > PENDING_LOADED_BYTES_MAX and not no_limit:
            break
        newest.append(_prediction(row))
    return newest[::-1]


def _resting(
    connection: sqlite3.Connection, life: int, voided_through: int, until: tuple[int, str], asks: bool
) -> list[Resting]:
    """Those before a time and an id; read from the index alone, but where the model asks for labels."""
    where = (
        "FROM pending WHERE model = ? AND at > ? AND (at, prediction_id) < (?, ?) ORDER BY at, prediction_id"
    )
    values = (life, voided_through, *until)
    if not asks:
        return [Resting(*row) for row in connection.execute(f"SELECT prediction_id, at {where}", values)]
    rows = map(_prediction, connection.execute(f"SELECT {_PENDING} {where}", values))
    return [
        Resting(each.prediction_id, each.at, each.certainty.ask_probability if each.certainty else None)
        for each in rows
    ]


def _state_and_tail(
    connection: sqlite3.Connection, number: int, model: str
) -> tuple[int, StateBytes | None, list[Recorded]]:
    """The newest snapshot that is what was saved, and all events after it; 0 and None for no snapshot."""
    is_damaged = False
    for seq, sealed in connection.execute(
        "SELECT seq, state FROM snapshot WHERE model = ? ORDER BY seq DESC", (number,)
    ):
        try:
            state = state_of(connection, number, seq, sealed)
        except Damaged as error:
            fields = {"model": model, "seq": seq}
            log.error("the snapshot of %s after event %d is damaged: %s", model, seq, error, extra=fields)
            is_damaged = True
            continue
        return seq, state, chained_events(connection, number, after=seq, limit=-1, follows=seq)
    try:
        tail = chained_events(connection, number, after=0, limit=-1, follows=0)
        if is_damaged and not tail:
            raise Damaged("no event is kept")
        return 0, None, tail
    except Damaged as error:
        if is_damaged:
            raise Damaged(
                f"the snapshots of {model} are damaged, and the events before them are no longer kept"
            ) from error
        raise


def outcomes(connection: sqlite3.Connection, model: str, seq: int) -> bytes | None:
    row = model_row(connection, model)
    if row is None:
        return None
    page = connection.execute(
        "SELECT body, model, through, version FROM outcome WHERE through >= ? AND model = ?"
        " ORDER BY through LIMIT 1",
        (seq, row[0]),
    ).fetchone()
    return unseal_outcomes(*page) if page else None


def pages(connection: sqlite3.Connection, life: int, seq: int) -> list[tuple[int, int, bytes]]:
    rows = connection.execute(
        "SELECT body, model, through, version FROM outcome WHERE model = ? AND through >= ? ORDER BY through",
        (life, seq),
    )
    return [
        (through, version, unseal_outcomes(body, model, through, version))
        for body, model, through, version in rows
    ]


def tagged(connection: sqlite3.Connection, life: int, tag: str) -> list[str]:
    rows = connection.execute(f"SELECT {_PENDING} FROM pending WHERE model = ?", (life,))
    return [row[0] for row in rows if _prediction(row).tag == tag]


def served(connection: sqlite3.Connection, life: int, labels: Collection[Label]) -> list[Prediction]:
    sought = {(type(label), label) for label in labels}
    rows = connection.execute(f"SELECT {_PENDING} FROM pending WHERE model = ?", (life,))
    return [each for each in map(_prediction, rows) if (type(each.served), each.served) in sought]


def summary(connection: sqlite3.Connection, model: str) -> Summary | None:
    """Also of a line that is damaged, so that its model can be deleted."""
    row = _look_up(connection, "model", MODEL_COLUMNS, model, lambda _: None, "name")
    return Summary(row[1], row[0], *row[5:11], *row[12:]) if row else None


def unsummarised(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM model WHERE id IN"
        " (SELECT model FROM event WHERE seq > (SELECT through FROM summarised))"
    )
    return [name for (name,) in rows]


def events(connection: sqlite3.Connection, model: str, after: int, limit: int) -> list[Recorded]:
    row = model_row(connection, model)
    return chained_events(connection, row[0], after=after, limit=limit) if row else []


def chained_events(
    connection: sqlite3.Connection, number: int, *, after: int, limit: int, follows: int | None = None
) -> list[Recorded]:
    """Events of a model; Damaged if one is missing between them, or between them and the one that they follow."""
    found: list[Recorded] = []
    for row in connection.execute(
        f"SELECT {_EVENT} FROM event WHERE model = ? AND seq > ? ORDER BY seq LIMIT ?", (number, after, limit)
    ):
        recorded, previous = _event(row), row[3]
        if follows is not None and follows != previous:
            raise Damaged(f"events are missing between {follows} and {recorded.seq}: it followed {previous}")
        found.append(recorded)
        follows = recorded.seq
    return found


_ERROR_RATE = "CASE revealed WHEN 0 THEN -1.0 ELSE 1.0 * mistakes / revealed END"

SORTS = {
    "name": "name",
    "rounds": "revealed",
    "mistakes": "mistakes",
    "updated_at": "updated_at",
    "pending": "pending",
    "error_rate": _ERROR_RATE,
    "ewma_error_rate": f"coalesce(ewma_error_rate, {_ERROR_RATE})",
}
"""What lists of models can be sorted by, as SQL; numbers largest first, equal ones by name."""

_WITH_PREFIX = "name >= :prefix AND name < :prefix || '~'"
"""A range of the index: whatever follows in a name comes before `~`."""

_CONTAINING = "instr(lower(name), :contains)"
"""Names have letters of ASCII only, which are what `lower` knows."""


def models(connection: sqlite3.Connection, page: Page) -> list[Listed]:
    key = SORTS[page.sort]
    later, down, up = (">", "DESC", "ASC") if not page.is_reversed else ("<", "ASC", "DESC")
    lower = "<" if not page.is_reversed else ">"
    seen, order = f"name {later} :name", f"name {up}"
    if page.sort != "name":
        seen, order = f"({key} {lower} :key OR ({key} = :key AND {seen}))", f"{key} {down}, {order}"
    last_key, last_name = page.after or (None, "")
    rows = connection.execute(
        f"SELECT {key}, {MODEL_COLUMNS}, digest FROM model WHERE {_WITH_PREFIX}"
        f" AND {_CONTAINING if page.contains else 1} AND {seen if page.after else 1}"
        f" ORDER BY {order} LIMIT :limit",
        {
            "prefix": page.prefix, "contains": page.contains, "key": last_key, "name": last_name,
            "limit": page.limit,
        },
    )  # fmt: skip
    return [Listed(row[2], row[3], _settings_if_sound(row[1:]), row[0]) for row in rows]


def _settings_if_sound(row: tuple[Any, ...]) -> dict[str, Any] | None:
    """None for a damaged line, which leaves the others of its page well."""
    name, settings = row[1], row[3]
    try:
        check_model(row)
        return msgspec.msgpack.decode(settings, type=dict[str, Any])
    except (msgspec.MsgspecError, Damaged) as error:
        log.error("the settings of %s are damaged: %s", name, error, extra={"model": name})
        return None


def totals(connection: sqlite3.Connection, prefix: str) -> Totals:
    row = connection.execute(
        "SELECT count(*), total(revealed), total(mistakes), total(updates), total(pending), total(expired)"
        f" FROM model WHERE {_WITH_PREFIX}",
        {"prefix": prefix},
    ).fetchone()
    return Totals(*map(int, row))


def milestone(connection: sqlite3.Connection, model: str, version: int | None) -> Milestone | None:
    connection.execute("BEGIN")  # one view for all questions
    try:
        row = model_row(connection, model)
        return _milestone(connection, row[0], version) if row is not None else None
    finally:
        connection.execute("COMMIT")


def _milestone(connection: sqlite3.Connection, life: int, version: int | None) -> Milestone | None:
    snapshots = connection.execute(
        "SELECT s.seq, s.state, o.version FROM snapshot s LEFT JOIN outcome o"
        " ON o.model = s.model AND o.through = s.seq WHERE s.model = ?"
        f" ORDER BY s.seq {'DESC' if version is not None else ''}",
        (life,),
    )
    beginning = Milestone(life, 0, None) if _is_followed(connection, life, 0) else None
    if beginning is not None and version is None:
        return beginning
    for seq, sealed, of_version in snapshots:
        if version is not None and of_version is not None and of_version > version:
            continue
        if not _is_followed(connection, life, seq):
            continue
        try:
            state = state_of(connection, life, seq, sealed)
        except Damaged:  # a load tells of it
            continue
        return Milestone(life, seq, state)
    return beginning


def _is_followed(connection: sqlite3.Connection, life: int, seq: int) -> bool:
    """Whether the event after this one is kept, or it is the newest. Those after that are, too: the oldest go first."""
    following = connection.execute(
        "SELECT previous FROM event WHERE model = ? AND seq > ? ORDER BY seq LIMIT 1", (life, seq)
    ).fetchone()
    return (following is None and seq > 0) or (following is not None and following[0] == seq)


def history(connection: sqlite3.Connection, life: int, after: int, limit: int) -> list[Recorded] | None:
    connection.execute("BEGIN")
    try:
        is_there = connection.execute("SELECT 1 FROM model WHERE id = ?", (life,)).fetchone()
        if not is_there or not _is_followed(connection, life, after):
            return None
        return chained_events(connection, life, after=after, limit=limit, follows=after)
    finally:
        connection.execute("COMMIT")
