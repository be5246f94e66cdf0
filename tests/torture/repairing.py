"""A repair that is cut off: there is always the old journal or the new one, and a second repair ends it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from service.journal.sqlite.schema import open_reader
from tests.commands.running import novikoff
from tests.torture.checking import Verdict, Wrong, check_directory, demand
from tests.torture.engines import Plan
from tests.torture.truth import Truth

PAGE_BYTES = 8192
JOURNAL = "journal.sqlite"


def tear_table(directory: Path, chance: Random) -> None:
    """Overwrite the first page of a table that can be made anew, as a drive may that loses its power."""
    with closing(open_reader(directory / JOURNAL)) as connection:
        select = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(select, (chance.choice(("snapshot", "outcome")),)).fetchone()
    _overwrite(directory / JOURNAL, (page - 1) * PAGE_BYTES, b"\xff" * 200)


def _overwrite(file: Path, at: int, content: bytes) -> None:
    with file.open("rb+") as opened:
        opened.seek(at)
        opened.write(content)


@dataclass(frozen=True, slots=True)
class Repair:
    """A directory that is damaged, and then repaired."""

    damage: Callable[[Path, Random], None]


REPAIRS = {
    "repair": Repair(tear_table),
}


async def check_repair(directory: Path, plan: Plan, truth: Truth, at: int, chance: Random) -> Verdict:
    """Half of the directories are opened as they are; the others are repaired once more, and have to be whole then."""
    if chance.random() < 0.5:
        verdict = await check_directory(directory, plan, truth, at, chance)
        missing = [why for why in verdict.refusals if "is missing or empty" in why]
        demand(not missing, f"there is no journal: {missing}")
        return verdict
    ended = novikoff("doctor", "--data", directory, "--repair")
    demand(ended.status == 0, f"a second repair fails: {ended.out}{ended.err}")
    verdict = await check_directory(directory, plan, truth, at, chance)
    if verdict.refusals:
        raise Wrong(f"not repaired: {verdict.refusals}")
    return verdict
