"""Records what the service, or a command of it, does to a directory; in processes of its own."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.golden.archives import FILES, unpack
from tests.torture.checking import Verdict, check_directory
from tests.torture.disk import Disk
from tests.torture.found import truth_about
from tests.torture.operations import AnyOperation, Present, read_log
from tests.torture.recording import UNRECORDED, environment, take_stock
from tests.torture.repairing import check_repair, tear
from tests.torture.truth import Truth
from tests.torture.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent.parent

AT_REST = "at-rest"
"""A directory whose service was stopped: all is in the file, and nothing in the log."""

SCENARIOS = [*WORKLOADS, AT_REST, "repair"]
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
    may_refuse: bool = False
    """Whether the directory was damaged before anything was recorded."""
    sound_only: bool = False
    """Whether nothing more is damaged: what 0.1.0 has left, or a damaged directory, cannot tell."""


def record(name: str, where: Path, seed: str, steps: int) -> Recorded:
    """Run a workload and read its log."""
    if name == "migration":
        return _migration(where)
    if name == AT_REST:
        stopped = record("all-kept", where, seed, steps)
        return replace(stopped, name=AT_REST, begins_at=len(stopped.log))
    if name == "repair":
        return _repair(where, seed, steps)
    plan = WORKLOADS[name].plan
    directory = where / "data"
    directory.mkdir(parents=True)
    log = run_recorded(["tests.torture.workloads", name, seed, str(steps)], directory)
    truth = Truth(plan.events_kept_max)
    truth.follow(log)

    async def check(cut_off: Path, at: int, chance: Random) -> Verdict:
        return await check_directory(cut_off, plan, truth, at, chance)

    return Recorded(name, log, 1, check)


def _migration(where: Path) -> Recorded:
    """A directory of 0.1.0 that was killed is opened for the first time."""
    plan = WORKLOADS["migration"].plan
    directory = unpack(FILES / "killed.tar.xz", where / "data")
    shutil.copytree(directory, where / "undisturbed")
    truth = asyncio.run(truth_about(where / "undisturbed", plan))
    log = run_recorded(["tests.torture.workloads", "migration", "", "0"], directory)

    async def check(cut_off: Path, at: int, chance: Random) -> Verdict:
        return await check_directory(cut_off, plan, truth, len(log), chance)

    return Recorded("migration", log, 1 + _present(log), check, sound_only=True)


def _repair(where: Path, seed: str, steps: int) -> Recorded:
    """A directory with a torn page of what can be made anew is repaired."""
    plan = WORKLOADS["all-kept"].plan
    directory = where / "data"
    directory.mkdir(parents=True)
    run_workload = ["tests.torture.workloads", "all-kept", seed, str(steps)]
    truth = Truth(plan.events_kept_max)
    before = run_recorded(run_workload, directory)
    truth.follow(before)
    (where / "log").unlink()
    tear(directory, "snapshot")
    log = run_recorded(["service", "doctor", "--data", str(directory), "--repair"], directory)

    async def check(cut_off: Path, at: int, chance: Random) -> Verdict:
        return await check_repair(cut_off, plan, truth, len(before), chance)

    return Recorded("repair", log, 1 + _present(log), check, may_refuse=True, sound_only=True)


def run_recorded(module: list[str], directory: Path) -> list[AnyOperation]:
    """Run a module on a directory; the log, which has to tell all that is in the directory in the end."""
    log = directory.with_name("log")
    take_stock(directory, log)
    subprocess.run([sys.executable, "-m", *module], env=environment(directory, log), cwd=ROOT, check=True)
    operations = read_log(log)
    check_complete(operations, directory)
    return operations


def check_complete(log: list[AnyOperation], directory: Path) -> None:
    """All operations, one after the other, give the directory as it is, to the byte."""
    disk = Disk()
    for operation in log:
        disk.follow(operation)
    files = {file.name: file.read_bytes() for file in directory.iterdir()}
    expected = {name: content for name, content in files.items() if not name.endswith(UNRECORDED)}
    cached = disk.cached()
    assert cached.keys() == expected.keys(), (cached.keys(), expected.keys())
    assert cached == expected, [name for name in cached if cached[name] != expected[name]]


def _present(log: list[AnyOperation]) -> int:
    """How many files were there before."""
    return sum(isinstance(operation, Present) for operation in log)
