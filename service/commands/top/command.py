"""`novikoff top`: the fleet in a terminal, as it learns."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer
from rich.live import Live

from novikoff import Client, Unreachable
from novikoff.schemas import Fleet
from service.commands.console import Key, KeyFile, Url, out, report_failures, service_key, service_url
from service.commands.top.table import table_of

LIMIT = 30


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
                    live.update(table_of(fleet, {}, out.width, note="no answer; trying again"), refresh=True)
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
