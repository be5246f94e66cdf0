"""Goes through a recorded log, cuts it off at chosen places in chosen ways, and has each directory checked."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.cuts import CUTS, DAMAGES
from tests.torture.disk import Disk
from tests.torture.forked import Ended, run_forked, write_image
from tests.torture.recorded import Recorded


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

    @property
    def points(self) -> int:
        return self.ends.total()

    def lines(self) -> Iterator[str]:
        ways = sorted({way for way, _ in self.ends})
        for way in ways:
            ends = {end: self.ends[way, end] for end in ("whole", "refused", "wrong") if self.ends[way, end]}
            yield f"  {way:12}" + ", ".join(f"{count} {end}" for end, count in ends.items())
        yield from self.wrongs


def try_points(
    recorded: Recorded, work: Path, ways: list[str], count: int, seed: str, *, first: bool = False
) -> Account:
    """Cut the log off at `count` places; `first`: up to the first that ends wrong."""
    chance = random.Random(seed)
    ways = [way for way in ways if way in CUTS or not recorded.sound_only]
    account, disk, done = Account(), Disk(), 0
    for at in sorted(_places(range(recorded.begins_at, len(recorded.log) + 1), count, chance)):
        while done < at:
            disk.follow(recorded.log[done])
            done += 1
        way, own = chance.choice(ways), random.Random(chance.random())
        shutil.rmtree(work, ignore_errors=True)
        write_image(work, (CUTS | DAMAGES)[way](disk, own))
        ended = run_forked(lambda: recorded.check(work, at, own))  # noqa: B023
        account.add(
            f"{recorded.name} {seed} at {at}", way, ended, may_refuse=recorded.may_refuse or way in DAMAGES
        )
        if first and account.wrongs:
            break
    shutil.rmtree(work, ignore_errors=True)
    return account


def _places(all_places: range, count: int, chance: random.Random) -> list[int]:
    """Each place equally often, as far as that goes."""
    again, rest = divmod(count, len(all_places))
    return [*all_places] * again + chance.sample(all_places, rest)
