"""A repair that is cut off: there is always the old journal or the new one, and a second repair ends it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from service.journal.sqlite.acknowledged import FRAME_HEADER_BYTES, LOG_HEADER_BYTES
from service.journal.sqlite.log_file import read_log
from tests.commands.running import novikoff
from tests.torture.checking import Verdict, Wrong, check_directory, demand
from tests.torture.engines import Plan
from tests.torture.truth import Truth

PAGE_BYTES = 8192
JOURNAL = "journal.sqlite"


def tear_table(directory: Path, chance: Random) -> None:
    """Overwrite the first page of a table that can be made anew, as a drive may that loses its power."""
    with closing(sqlite3.connect(directory / JOURNAL)) as connection:
        select = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(select, (chance.choice(("snapshot", "outcome")),)).fetchone()
    _overwrite(directory / JOURNAL, (page - 1) * PAGE_BYTES, b"\xff" * 200)


def damage_schema(directory: Path, chance: Random) -> None:
    """Turn a bit of the first page, or lose a sector of it."""
    page = (directory / JOURNAL).read_bytes()[:PAGE_BYTES]
    content_begins = int.from_bytes(page[105:107], "big")
    at = chance.choice((chance.randrange(108), chance.randrange(content_begins, PAGE_BYTES)))
    size = chance.choice((1, 1, 512, 4096))
    if size == 1:
        _overwrite(directory / JOURNAL, at, bytes([page[at] ^ 1 << chance.randrange(8)]))
    else:
        lost = chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))
        _overwrite(directory / JOURNAL, at // size * size, lost)


def damage_log(directory: Path, chance: Random) -> None:
    """Turn a bit of a checksum in the log: SQLite drops what comes after it, and each row is there still."""
    log = read_log(directory / JOURNAL)
    frames = log.frames_followed() if log is not None else 0
    if not frames:  # it was just begun anew
        return
    at = LOG_HEADER_BYTES + chance.randrange(frames) * (FRAME_HEADER_BYTES + PAGE_BYTES) + 20
    content = (directory / f"{JOURNAL}-wal").read_bytes()
    _overwrite(directory / f"{JOURNAL}-wal", at, bytes([content[at] ^ 1]))


def _overwrite(file: Path, at: int, content: bytes) -> None:
    with file.open("rb+") as opened:
        opened.seek(at)
        opened.write(content)


@dataclass(frozen=True, slots=True)
class Repair:
    """A directory that is damaged, and then repaired."""

    damage: Callable[[Path, Random], None]
    is_killed: bool = False
    """Whether its service was killed before, so that there is a log."""

    def killed_at(self, operations: int, chance: Random) -> int:
        """After how many operations of a workload its service has ended."""
        return chance.randrange(operations // 2, operations * 9 // 10) if self.is_killed else operations


REPAIRS = {
    "repair": Repair(tear_table),
    "repair-schema": Repair(damage_schema),
    "repair-log": Repair(damage_log, is_killed=True),
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
