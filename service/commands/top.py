"""`novikoff top`: a table of the models in a terminal, updated as they learn.

The table fits its terminal: names are shortened and columns left out, but no number is ever cut.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from novikoff import Client, Unreachable
from novikoff.schemas import Fleet, StatsLine, Totals
from service.commands.console import (
    Key,
    KeyFile,
    Url,
    counted,
    out,
    percent,
    report_failures,
    service_key,
    service_url,
)

LIMIT = 30

COLUMNS = (
    "model",
    "algorithm",
    "rounds",
    "per s",
    "mistakes",
    "error",
    "recent",
    "waiting",
    "drift",
    "changed",
)
SPARE = ("algorithm", "changed", "waiting", "drift", "recent", "mistakes", "per s", "error")
"""Columns that a narrow terminal does without, in this order."""
NAME_CHARS_MIN = 12
CELL_FRAME_CHARS = 3
"""What a cell has around it: a blank on either side, and a line."""

DRIFT_STYLE = {"stable": "green", "warning": "yellow", "drift": "bold red"}


class Sort(StrEnum):
    rounds = "rounds"
    mistakes = "mistakes"
    error_rate = "error_rate"
    ewma_error_rate = "ewma_error_rate"
    pending = "pending"
    updated_at = "updated_at"
    name = "name"


def top(
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only models with this prefix.")] = "",
    sort: Annotated[Sort, typer.Option(help="Largest first; names in alphabetical order.")] = Sort.updated_at,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many models to show.")
    ] = LIMIT,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Update interval.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
) -> None:
    """Watch the models: their rounds, pace and error rates. Ctrl-C ends it."""

    def look() -> Fleet:
        return client.fleet(prefix, sort=sort, limit=limit)

    with (
        report_failures(),
        Client(service_url(url), key=service_key(key, key_file), retry_seconds=0) as client,
    ):
        if once:
            out.print(table_of(look(), {}, out.width))
        else:
            _watch(look, every)


def _watch(look: Callable[[], Fleet], every_seconds: float) -> None:
    fleet, seen_at = look(), time.monotonic()
    paces: dict[str, float] = {}
    try:
        with Live(
            table_of(fleet, paces, out.width), console=out, screen=out.is_terminal, auto_refresh=False
        ) as live:
            while True:
                time.sleep(every_seconds)
                try:
                    newer, now = look(), time.monotonic()
                except Unreachable:
                    live.update(
                        table_of(fleet, {}, out.width, note="The service does not respond. Retrying."),
                        refresh=True,
                    )
                    continue
                paces = paces_between(fleet, newer, now - seen_at)
                fleet, seen_at = newer, now
                live.update(table_of(fleet, paces, out.width), refresh=True)
    except KeyboardInterrupt:
        return


def paces_between(earlier: Fleet, later: Fleet, seconds: float) -> dict[str, float]:
    """Rounds a second of each model that is on both pages."""
    before = {line.model: line.rounds.revealed for line in earlier.models}
    return {
        line.model: max(0, line.rounds.revealed - before[line.model]) / seconds
        for line in later.models
        if line.model in before
    }


def table_of(fleet: Fleet, paces: dict[str, float], width: int, note: str = "") -> Table:
    """The models in `width` characters; `paces` are their rounds a second."""
    now = datetime.now(UTC)
    rows = [_cells(line, paces.get(line.model), now) for line in fleet.models]
    widths = {name: max([len(name), *(len(row[name]) for row in rows)]) for name in COLUMNS}
    shown, name_chars = _fitting(widths, width)
    table = Table(title=Text(heading(fleet.totals) + (f"   {note}" if note else "")), title_justify="left")
    for name in shown:
        table.add_column(name, justify="left" if name in ("model", "algorithm") else "right", no_wrap=True)
    for line, row in zip(fleet.models, rows, strict=True):
        table.add_row(shortened(line.model, name_chars), *(row[name] for name in shown[1:]))
    captions = [f"{each.model} cannot be read: {each.detail}" for each in fleet.unreadable]
    if fleet.next is not None:
        captions.append(f"the first {len(fleet.models)} of {fleet.totals.models:,}")
    table.caption = Text("\n".join(captions)) if captions else None
    return table


def _fitting(widths: dict[str, int], width: int) -> tuple[list[str], int]:
    """The columns that fit, and how much of them names may have."""
    shown = list(COLUMNS)
    for name in ("", *SPARE):
        shown = [each for each in shown if each != name]
        others = sum(widths[each] for each in shown[1:])
        room = width - 1 - others - CELL_FRAME_CHARS * len(shown)
        if room >= min(widths["model"], NAME_CHARS_MIN):
            break
    return shown, max(room, 1)


def shortened(name: str, chars: int) -> str:
    """A name in so many characters: its begin and its end, which tell it from others.

    >>> shortened("customer-0000017", 12), shortened("spam", 12)
    ('custom…00017', 'spam')
    """
    if len(name) <= chars:
        return name
    end = (chars - 1) // 2
    return f"{name[: chars - 1 - end]}…{name[len(name) - end :]}"


def heading(totals: Totals) -> str:
    error = "" if totals.error_rate is None else f", error {percent(totals.error_rate)}"
    models = counted(totals.models, "model")
    rounds = counted(totals.rounds.revealed, "round")
    waiting = counted(totals.rounds.pending, "prediction")
    return f"{models}, {rounds}{error}, {waiting} pending"


def _cells(line: StatsLine, pace: float | None, now: datetime) -> dict[str, str | Text]:
    return {
        "model": line.model,
        "algorithm": line.algorithm,
        "rounds": f"{line.rounds.revealed:,}",
        "per s": "" if pace is None else f"{pace:,.0f}",
        "mistakes": f"{line.mistakes:,}",
        "error": percent(line.error_rate),
        "recent": percent(line.ewma_error_rate),
        "waiting": f"{line.rounds.pending:,}",
        "drift": Text(line.drift.state, DRIFT_STYLE.get(line.drift.state, "")),
        "changed": age((now - line.updated_at).total_seconds()),
    }


def age(seconds: float) -> str:
    """
    >>> age(-0.1), age(59), age(3 * 3600 + 5), age(90_000)
    ('now', '59 s', '3 h', '1 d')
    """
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return "now"
