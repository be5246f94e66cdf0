"""Checks of the line that the list of models has for each: is it what was written, and are its counts right?"""

import sqlite3
from collections.abc import Iterator

from service.commands.doctor.findings import Finding, Repair, Severity
from service.engine.fleet.live import Live
from service.journal.codec import encode
from service.journal.seals import Damaged
from service.journal.sqlite.sealing import MODEL_COLUMNS, SEAL_MODEL, check_model


def examine_line(
    connection: sqlite3.Connection, number: int, live: Live, *, is_whole: bool
) -> Iterator[Finding]:
    """Compare the line of a model with its replay. `is_whole`: none of its events was trimmed."""
    damage = _damage(connection, number, live, is_whole=is_whole)
    yield from [damage] if damage else _examine_counts(connection, number, live)


def _damage(connection: sqlite3.Connection, number: int, live: Live, *, is_whole: bool) -> Finding | None:
    """Whether the line of the model is what was written; if not, it can be made anew but for what was trimmed."""
    row = connection.execute(f"SELECT {MODEL_COLUMNS}, digest FROM model WHERE id = ?", (number,)).fetchone()
    try:
        check_model(row)
    except Damaged as error:
        model = live.model
        values = {
            "name": model.name, "created_at": model.created_at, "settings": encode(model.settings),
            "updated_at": model.updated_at, "revealed": model.revealed, "mistakes": model.mistakes,
            "updates": model.updates, "expired": model.expired, "newest": live.seq,
            "ewma_error_rate": model.statistics.ewma.error_rate,
        }  # fmt: skip
        if is_whole:
            values["voided_through"] = live.voided_through
        loses = "" if is_whole else f"up to when predictions of {model.name} are void, if it was that"

        def repair(connection: sqlite3.Connection) -> None:
            columns = ", ".join(f"{column} = ?" for column in values)
            connection.execute(f"UPDATE model SET {columns} WHERE id = ?", (*values.values(), number))
            connection.execute(f"{SEAL_MODEL} WHERE id = ?", (number,))

        return Finding(live.model.name, str(error), "--repair makes it anew.", repair, loses)
    return None


def _examine_counts(connection: sqlite3.Connection, number: int, live: Live) -> Iterator[Finding]:
    """Compare the model's summary, unless it is stale: then the service brings it up to date itself."""
    (is_late,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM event WHERE model = ? AND seq > (SELECT min(through) FROM summarised))",
        (number,),
    ).fetchone()
    if is_late:
        return
    (pending,) = connection.execute(
        "SELECT count(*) FROM pending p JOIN model m ON m.id = p.model WHERE m.id = ? AND p.at > m.voided_through",
        (number,),
    ).fetchone()
    model = live.model
    counted = {
        "revealed": model.revealed, "mistakes": model.mistakes, "updates": model.updates,
        "expired": model.expired, "pending": pending,
    }  # fmt: skip
    row = connection.execute(f"SELECT {', '.join(counted)} FROM model WHERE id = ?", (number,)).fetchone()
    wrong = [f"{name} {said} instead of {counted[name]}" for name, said in zip(counted, row, strict=True)
             if said != counted[name]]  # fmt: skip
    if wrong:
        # Waiting predictions are not events, so a service that was killed may have counted them differently.
        is_serious = row[:3] != tuple(counted.values())[:3]
        yield Finding(
            live.model.name,
            f"its line in the list of models says {', '.join(wrong)}",
            "--repair counts anew.",
            _recount(number, counted),
            severity=Severity.problem if is_serious else Severity.note,
        )


def _recount(number: int, counted: dict[str, int]) -> Repair:
    def repair(connection: sqlite3.Connection) -> None:
        columns = ", ".join(f"{name} = ?" for name in counted)
        connection.execute(f"UPDATE model SET {columns} WHERE id = ?", (*counted.values(), number))
        connection.execute(f"{SEAL_MODEL} WHERE id = ?", (number,))

    return repair
