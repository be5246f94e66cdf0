"""Goes through a recorded log, cuts it off at chosen places in chosen ways, and has each directory checked."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from tests.torture.checking import Verdict
from tests.torture.cuts import CUTS, DAMAGES
from tests.torture.disk import Disk, Image
from tests.torture.forked import Ended, run_each_forked, write_image
from tests.torture.recorded import Recorded

POINTS_OF_A_PROCESS = 8
"""Tried one after the other: most of what the first costs is that a new process copies what it touches."""


@dataclass(slots=True)
class Account:
    """How the directories ended, by the way in which they were cut off."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrongs: list[str] = field(default_factory=list)

    def add(self, where: str, way: str, ended: Ended, *, may_refuse: bool) -> None:
        wrong = ended.wrong
        if wrong is None and ended.refusals and not may_refuse:
            wrong = f"refused, though the disk is sound: {ended.refusals[0]}"
        self.ends[way, "wrong" if wrong else "refused" if ended.refusals else "whole"] += 1
        if wrong is not None:
            self.wrongs.append(f"WRONG {where}, {way}: {wrong}\n{ended.log[-2000:]}")

    def __iadd__(self, other: "Account") -> "Account":
        self.ends += other.ends
        self.wrongs += other.wrongs
        return self

    @property
    def points(self) -> int:
        return self.ends.total()

    def lines(self) -> Iterator[str]:
        ways = sorted({way for way, _ in self.ends})
        for way in ways:
            ends = {end: self.ends[way, end] for end in ("whole", "refused", "wrong") if self.ends[way, end]}
            yield f"  {way:14}" + ", ".join(f"{count} {end}" for end, count in ends.items())
        yield from self.wrongs


def try_points(
    recorded: Recorded, work: Path, ways: list[str], count: int, seed: str, *, first: bool = False
) -> Account:
    """Cut the log off at `count` places; `first`: up to the first that ends wrong."""
    account = Account()
    points = _points(recorded, [way for way in ways if way in CUTS or not recorded.sound_only], count, seed)
    while some := list(islice(points, POINTS_OF_A_PROCESS)):
        checks = [partial(_check, recorded, work, point) for point in some]
        for point, ended in zip(some, run_each_forked(checks), strict=True):
            may_refuse = point.at < recorded.sound_from or point.way in DAMAGES
            account.add(f"{recorded.name} {seed} at {point.at}", point.way, ended, may_refuse=may_refuse)
        if first and account.wrongs:
            break
    shutil.rmtree(work, ignore_errors=True)
    return account


@dataclass(frozen=True, slots=True)
class Point:
    """A place of the log at which it is cut off, and what is left then."""

    at: int
    way: str
    image: Image
    chance: random.Random


def _points(recorded: Recorded, ways: list[str], count: int, seed: str) -> Iterator[Point]:
    chance = random.Random(seed)
    disk, done = Disk(), 0
    for at in sorted(_places(recorded, count, chance)):
        while done < at:
            disk.follow(recorded.log[done])
            done += 1
        way, own = chance.choice(ways), random.Random(chance.random())
        yield Point(at, way, (CUTS | DAMAGES)[way](disk, own), own)


async def _check(recorded: Recorded, work: Path, point: Point) -> Verdict:
    shutil.rmtree(work, ignore_errors=True)
    write_image(work, point.image)
    return await recorded.check(work, point.at, point.chance)


def _places(recorded: Recorded, count: int, chance: random.Random) -> list[int]:
    """Each place equally often; but half of those of a repair are amid its last steps, since these are few."""
    end = len(recorded.log) + 1
    last_steps = count // 2 if recorded.sound_from else 0
    return [
        *_evenly(range(recorded.begins_at, end), count - last_steps, chance),
        *_evenly(range(recorded.sound_from, end), last_steps, chance),
    ]


def _evenly(places: range, count: int, chance: random.Random) -> list[int]:
    if not places:  # of a repair that found nothing to do
        return []
    again, rest = divmod(count, len(places))
    return [*places] * again + chance.sample(places, rest)
