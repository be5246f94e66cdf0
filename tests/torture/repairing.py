"""A repair that is cut off: there is always the old journal or the new one, and a second repair ends it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from tests.commands.running import novikoff
from tests.torture.checking import Verdict, Wrong, check_directory, demand
from tests.torture.engines import Plan
from tests.torture.truth import Truth

PAGE_BYTES = 8192


def tear(directory: Path, table: str) -> None:
    """Overwrite the first page of a table, as a drive may that loses its power."""
    with closing(sqlite3.connect(directory / "journal.sqlite")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    with (directory / "journal.sqlite").open("rb+") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * 200)


async def check_repair(directory: Path, plan: Plan, truth: Truth, at: int, chance: Random) -> Verdict:
    """Half of the directories are opened as they are; the others are repaired once more, and have to be whole then."""
    if chance.random() < 0.5:
        verdict = await check_directory(directory, plan, truth, at, chance)
        missing = [why for why in verdict.refusals if "missing" in why]
        demand(not missing, f"there is no journal: {missing}")
        return verdict
    ended = novikoff("doctor", "--data", directory, "--repair")
    demand(ended.status == 0, f"a second repair fails: {ended.out}{ended.err}")
    verdict = await check_directory(directory, plan, truth, at, chance)
    if verdict.refusals:
        raise Wrong(f"not repaired: {verdict.refusals}")
    return verdict
