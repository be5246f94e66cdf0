"""Records what the service, or a command of it, does to a directory; in processes of its own."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.commands.running import novikoff
from tests.golden.archives import FILES, unpack
from tests.torture import recording
from tests.torture.checking import Verdict, check_directory, demand
from tests.torture.disk import Disk, Image
from tests.torture.forked import run_forked, write_image
from tests.torture.found import truth_about
from tests.torture.operations import AnyOperation, Present, Rename, SyncDirectory, read_log
from tests.torture.recording import UNRECORDED, take_stock
from tests.torture.repairing import REPAIRS, check_repair
from tests.torture.truth import Truth
from tests.torture.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent.parent

AT_REST = "at-rest"
"""A directory whose service was stopped: all is in the file, and nothing in the log."""

ALL_KEPT = "all-kept"

SCENARIOS = [*WORKLOADS, AT_REST, *REPAIRS]
"""All that can be recorded."""

Check = Callable[[Path, int, Random], Coroutine[Any, Any, Verdict]]
"""Checks a directory that was cut off at a place of the log."""


@dataclass(frozen=True, slots=True)
class Recorded:
    name: str
    log: list[AnyOperation]
    begins_at: int
    """The first place of the log at which it can be cut off: what was there before is durable."""
    check: Check
    sound_from: int = 0
    """The directory was damaged, and is sound from this place of the log on: nobody may refuse it then."""
    sound_only: bool = False
    """Whether nothing more is damaged: what 0.1.0 has left, or a damaged directory, cannot tell."""


def record(name: str, where: Path, seed: str, steps: int) -> Recorded:
    """Run a workload, or a command after it, and read the log. `where`: a folder for all that is recorded."""
    if name == "migration":
        return _migration(where / name)
    if name in REPAIRS:
        return _repair(name, where, seed, steps)
    log, truth = _run_workload(ALL_KEPT if name == AT_REST else name, where, seed, steps)
    plan = WORKLOADS[ALL_KEPT if name == AT_REST else name].plan

    async def check(cut_off: Path, at: int, chance: Random) -> Verdict:
        return await check_directory(cut_off, plan, truth, at, chance)

    return Recorded(name, log, len(log) if name == AT_REST else 1, check)


@cache
def _run_workload(name: str, where: Path, seed: str, steps: int) -> tuple[list[AnyOperation], Truth]:
    """Once, though several scenarios are about it."""
    workload = WORKLOADS[name]
    directory = where / name / "data"
    directory.mkdir(parents=True)
    log = run_recorded(lambda: workload.run(directory, workload.plan, Random(seed), steps), directory)
    truth = Truth(workload.plan.events_kept_max)
    truth.follow(log)
    return log, truth


def _migration(where: Path) -> Recorded:
    """A directory of 0.1.0 that was killed is opened for the first time."""
    workload = WORKLOADS["migration"]
    directory = unpack(FILES / "killed.tar.xz", where / "data")
    shutil.copytree(directory, where / "undisturbed")
    truth = asyncio.run(truth_about(where / "undisturbed", workload.plan))
    log = run_recorded(lambda: workload.run(directory, workload.plan, Random(), 0), directory)

    async def check(cut_off: Path, at: int, chance: Random) -> Verdict:
        return await check_directory(cut_off, workload.plan, truth, len(log), chance)

    return Recorded("migration", log, 1 + _present(log), check, sound_only=True)


def _repair(name: str, where: Path, seed: str, steps: int) -> Recorded:
    """A directory is damaged so that nothing is lost by it, and repaired."""
    before, truth = _run_workload(ALL_KEPT, where, seed.partition(".")[0], steps)
    chance = Random(seed)
    at = len(before)
    directory = where / name / seed / "data"
    write_image(directory, _killed(before[:at]))
    REPAIRS[name].damage(directory, chance)

    async def repair() -> None:
        ended = novikoff("doctor", "--data", directory, "--repair")
        demand(ended.status == 0, f"{name} {seed} is not repaired: {ended.out}{ended.err}")

    log = run_recorded(repair, directory)

    async def check(cut_off: Path, _: int, chance: Random) -> Verdict:
        return await check_repair(cut_off, WORKLOADS[ALL_KEPT].plan, truth, at, chance)

    return Recorded(name, log, 1 + _present(log), check, _repaired_at(log), sound_only=True)


def _repaired_at(log: list[AnyOperation]) -> int:
    """The place from which on the copy that a repair has made is the journal, whoever cuts it off."""
    renamed = [at for at, one in enumerate(log) if isinstance(one, Rename) and one.to.endswith(".repaired")]
    synced = (at for at, one in enumerate(log) if isinstance(one, SyncDirectory) and at > renamed[0])
    return next(synced) + 1 if renamed else len(log) + 1


def run_recorded(run: Callable[[], Coroutine[Any, Any, None]], directory: Path) -> list[AnyOperation]:
    """Run something on a directory, in a process of its own; the log, which has to tell all that is there then."""
    log = directory.with_name("log")
    take_stock(directory, log)

    async def recorded() -> Verdict:
        recording.install(directory, log)
        await run()
        assert recording.recorder is not None
        recording.recorder.catch_up()
        return Verdict([])

    ended = run_forked(recorded)
    assert ended.wrong is None, f"{ended.wrong}\n{ended.log}"
    operations = read_log(log)
    check_complete(operations, directory)
    return operations


def _killed(log: list[AnyOperation]) -> Image:
    """What a process leaves that was killed when it had done this."""
    disk = Disk()
    for operation in log:
        disk.follow(operation)
    return disk.cached()


def check_complete(log: list[AnyOperation], directory: Path) -> None:
    """All operations, one after the other, give the directory as it is, to the byte."""
    cached = _killed(log)
    files = {file.name: file.read_bytes() for file in directory.iterdir()}
    expected = {name: content for name, content in files.items() if not name.endswith(UNRECORDED)}
    assert cached.keys() == expected.keys(), (cached.keys(), expected.keys())
    assert cached == expected, [name for name in cached if cached[name] != expected[name]]


def _present(log: list[AnyOperation]) -> int:
    """How many files were there before."""
    return sum(isinstance(operation, Present) for operation in log)
