"""`novikoff top`: the fleet in a terminal, as it learns."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from service.answers import StatsLine, Totals
from service.client import Client, Unreachable
from service.client.answers import Fleet
from service.commands.console import URL, Key, Url, out, report_failures

LIMIT = 30
COLUMNS = (
    "model",
    "algorithm",
    "rounds",
    "per s",
    "mistakes",
    "error",
    "lately",
    "waiting",
    "drift",
    "changed",
)
WIDE_ONLY = frozenset({"algorithm", "waiting", "changed"})
"""Columns that are left out in terminals narrower than WIDE characters."""
WIDE = 100

DRIFT_STYLE = {"stable": "green", "warning": "yellow", "drift": "bold red"}


class Sort(StrEnum):
    rounds = "rounds"
    mistakes = "mistakes"
    error_rate = "error_rate"
    updated_at = "updated_at"
    name = "name"


def top(
    url: Url = URL,
    key: Key = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only models whose names begin so.")] = "",
    sort: Annotated[Sort, typer.Option(help="Largest first; names from a to z.")] = Sort.updated_at,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many models to show.")
    ] = LIMIT,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
) -> None:
    """Watch the fleet: who learns, how fast, and how well. Ctrl-C ends it."""

    def look() -> Fleet:
        return client.fleet(prefix, sort=sort, limit=limit)

    with report_failures(), Client(url, key=key, retry_seconds=0) as client:
        if once:
            out.print(view(look(), {}))
        else:
            _watch(look, every)


def _watch(look: Callable[[], Fleet], every_seconds: float) -> None:
    fleet, seen_at = look(), time.monotonic()
    paces: dict[str, float] = {}
    try:
        with Live(view(fleet, paces), console=out, screen=out.is_terminal, auto_refresh=False) as live:
            while True:
                time.sleep(every_seconds)
                try:
                    newer, now = look(), time.monotonic()
                except Unreachable:
                    live.update(view(fleet, {}, note="no answer; trying again"), refresh=True)
                    continue
                paces = paces_between(fleet, newer, now - seen_at)
                fleet, seen_at = newer, now
                live.update(view(fleet, paces), refresh=True)
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


def view(fleet: Fleet, paces: dict[str, float], note: str = "") -> Table:
    totals = fleet.totals
    table = Table(title=Text(heading(totals) + (f"   {note}" if note else "")), title_justify="left")
    now = datetime.now(UTC)
    rows = [_cells(line, paces.get(line.model), now) for line in fleet.models]
    shown = [name for name in COLUMNS if out.width >= WIDE or name not in WIDE_ONLY]
    for name in shown:
        table.add_column(name, justify="left" if name in ("model", "algorithm") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    captions = [f"{each.model} cannot be read: {each.detail}" for each in fleet.unreadable]
    if fleet.next is not None:
        captions.append(f"the first {len(fleet.models)} of {totals.models:,}")
    table.caption = Text("\n".join(captions)) if captions else None
    return table


def heading(totals: Totals) -> str:
    error = "" if totals.error_rate is None else f", error {totals.error_rate:.4f}"
    models = "1 model" if totals.models == 1 else f"{totals.models:,} models"
    return (
        f"{models}, {totals.rounds.revealed:,} rounds{error},"
        f" {totals.rounds.pending:,} predictions waiting for labels"
    )


def _cells(line: StatsLine, pace: float | None, now: datetime) -> dict[str, str | Text]:
    return {
        "model": line.model,
        "algorithm": line.algorithm,
        "rounds": f"{line.rounds.revealed:,}",
        "per s": "" if pace is None else f"{pace:,.0f}",
        "mistakes": f"{line.mistakes:,}",
        "error": _rate(line.error_rate),
        "lately": _rate(line.ewma_error_rate),
        "waiting": f"{line.rounds.pending:,}",
        "drift": Text(line.drift.state, DRIFT_STYLE.get(line.drift.state, "")),
        "changed": age((now - line.updated_at).total_seconds()),
    }


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.4f}"


def age(seconds: float) -> str:
    """
    >>> age(-0.1), age(59), age(3 * 3600 + 5), age(90_000)
    ('now', '59 s', '3 h', '1 d')
    """
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return "now"
