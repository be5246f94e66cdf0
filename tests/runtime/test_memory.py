"""Budgets come from the memory that the process has."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.runtime.memory import CHILD_BYTES, SERVICE_BYTES, children, memory_bytes
from service.settings import Settings
from tests.support.missing_programs import missing
from tests.support.service_process import Service
from tests.support.waiting import eventually
from tests.web.routes.test_metrics import gauge

MIB = 2**20
MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def system(root: Path, groups: str, mounts: list[str], limits: dict[str, str]) -> Path:
    """What a process finds in /proc and /sys."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    for file, limit in limits.items():
        (root / "sys/fs/cgroup" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / file).write_text(f"{limit}\n")
    return root


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
V2_OWN, V1_OWN = (mount.replace(" / /", " /docker/x /") for mount in (V2, V1))
OTHER = "22 1 8:1 / / rw - ext4 /dev/root rw"
CPU = "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
NONE = "9223372036854771712"


@pytest.mark.parametrize(
    ("groups", "mounts", "limits", "expected"),
    [
        ("0::/a/b\n", [V2], {"a/b/memory.max": "1048576"}, 1048576),
        ("0::/a/b\n", [V2], {"a/b/memory.max": "max", "a/memory.max": "2097152"}, 2097152),
        ("0::/a/b\n", [V2], {"a/b/memory.max": "3145728", "a/memory.max": "2097152"}, 2097152),
        ("0::/\n", [V2], {"memory.max": "1048576"}, 1048576),
        ("0::/a\n", [V2], {"a/memory.max": "max"}, MACHINE),
        ("0::/a\n", [V2], {"b/memory.max": "1048576"}, MACHINE),
        ("0::/a\n", [OTHER], {}, MACHINE),
        ("0::/a\n", [V2], {"a/memory.max": "9" * 25}, MACHINE),
        ("4:memory:/a\n2:cpu:/\n0::/\n", [CPU, V1, UNIFIED], {"memory/a/memory.limit_in_bytes": "1048576"}, 1048576),
        (
            "4:memory:/a/b\n0::/a/b\n",
            [V1, UNIFIED],
            {"memory/a/b/memory.limit_in_bytes": NONE, "memory/a/memory.limit_in_bytes": "2097152"},
            2097152,
        ),
        ("4:hugetlb,memory:/a\n", [V1], {"memory/a/memory.limit_in_bytes": "1048576"}, 1048576),
        # A container that sees the path outside, with its own group mounted and no more.
        ("0::/docker/x\n", [V2_OWN], {"memory.max": "1048576"}, 1048576),
        ("4:memory:/docker/x\n", [V1_OWN], {"memory/memory.limit_in_bytes": "1048576"}, 1048576),
        ("0::/docker/x/y\n", [V2_OWN], {"memory.max": "max", "y/memory.max": "1048576"}, 1048576),
        ("0::/../y\n", [V2], {"memory.max": "1048576"}, 1048576),
    ],
)  # fmt: skip
def test_the_memory_is_the_smallest_limit_on_the_way_up_or_the_machine(
    groups: str, mounts: list[str], limits: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert memory_bytes(system(tmp_path, groups, mounts, limits)) == expected


def test_without_proc_it_is_the_machine(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == MACHINE


def budgets(settings: Settings) -> int:
    """All that they allow at the same time."""
    models = settings.models_loaded_bytes_max + settings.models_loaded_bytes_max // 8  # older versions
    others = (settings.connections_bytes_max, settings.pending_bytes_max, settings.outcomes_bytes_max)
    jobs = children(settings.jobs_max) * settings.fit_memory_bytes_max
    return models + sum(others) + settings.copies_bytes_max + jobs


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_all_budgets_and_the_processes_themselves_stay_below_the_memory(jobs: int) -> None:
    memory = 256 * MIB if jobs == 1 else 1024 * MIB
    while memory <= 64 * 1024 * MIB:
        settings = Settings(memory_bytes=memory, jobs_max=jobs)
        processes = SERVICE_BYTES + children(jobs) * CHILD_BYTES
        assert budgets(settings) + processes < memory
        assert settings.upload_bytes_max <= settings.connections_bytes_max
        assert settings.fit_examples_bytes_max < settings.fit_memory_bytes_max
        assert 8 * settings.weights_max <= settings.models_loaded_bytes_max // 2
        memory += memory // 7
    assert settings.models_loaded_bytes_max > memory * 0.35


def test_what_is_set_wins() -> None:
    settings = Settings(memory_bytes=1024 * MIB, models_loaded_bytes_max=7, weights_max=9)
    assert (settings.models_loaded_bytes_max, settings.weights_max) == (7, 9)
    assert settings.pending_bytes_max == Settings(memory_bytes=1024 * MIB).pending_bytes_max


Limited = Callable[[int], Path]


@pytest.fixture
def limited() -> Iterator[Limited]:
    """Makes control groups with so much memory, in whichever version the machine has."""
    made: list[Path] = []

    def make(limit: int) -> Path:
        group = Path("/sys/fs/cgroup/memory")
        file = "memory.limit_in_bytes"
        if not group.exists():
            group, file = Path("/sys/fs/cgroup"), "memory.max"
        group /= f"novikoff-test-{os.getpid()}"
        try:
            group.mkdir()
            made.append(group)
            (group / file).write_text(str(limit))
        except OSError as error:
            missing(f"a control group: {error}")
        return group

    yield make
    for group in made:
        with suppress(OSError):  # what is left of its processes
            eventually(lambda: not (group / "cgroup.procs").read_text())  # noqa: B023
            group.rmdir()


def within(group: Path) -> tuple[str, ...]:
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", sys.executable)


@pytest.mark.slow
def test_a_process_in_a_real_control_group_has_the_memory_of_that(limited: Limited) -> None:
    command = [
        *within(limited(300 * MIB)),
        "-c",
        "from service.runtime import memory; print(memory.memory_bytes())",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) == 300 * MIB


@pytest.mark.thorough
def test_more_models_than_fit_stay_below_the_limit_of_the_container(limited: Limited, tmp_path: Path) -> None:
    """They take 200 MiB beside 100 for the service, and the system kills whatever takes more than the limit."""
    limit = 256 * MIB
    group = limited(limit)
    service = Service(tmp_path / "data")
    service.program = (*within(group), "-m", "service")
    service.start(cold=True)
    try:
        assert gauge(service, "memory_bytes_max") == limit
        assert gauge(service, "budget_bytes_max", of="models") < limit / 3
        features = [1] * 65_536
        for number in range(400):
            service.learn(f"m-{number}", features, 1)
        assert gauge(service, "models_loaded") < 400
        taken = sum(
            int(re.findall(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())[0]) * 1024
            for pid in (group / "cgroup.procs").read_text().split()
        )
        assert taken < limit
        assert service.stats("m-0")["rounds"]["revealed"] == 1
    finally:
        service.close()
