"""How much memory this process may take: what its control groups allow, as a container's does, else the machine's."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 1_048_576

SERVICE_BYTES = 96 * MEBIBYTE
"""The service and its writer, with next to nothing to do, take so much."""
CHILD_BYTES = 24 * MEBIBYTE
"""And a process of a job, beside what it is given."""


def memory_bytes(root: Path = Path("/")) -> int:
    """The smallest limit that holds for this process. `root`: where `proc` and `sys` are."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):  # another system than Linux
        return min([machine, *_limits(root)])
    return machine


def _limits(root: Path) -> Iterator[int]:
    """Of this process's group and of those above it, of both versions of control groups, as far as they are mounted."""
    groups: dict[str, str] = {}
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    for line in (root / "proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, mounted, point, *_ = before.split()
        kind, _, options, *_ = after.split()
        if kind == "cgroup2":
            controller, file = "", "memory.max"
        elif kind == "cgroup" and "memory" in options.split(","):
            controller, file = "memory", "memory.limit_in_bytes"
        else:
            continue
        path, above = groups.get(controller, "/"), mounted.rstrip("/")
        top = root / point.lstrip("/")
        # A container may see the path that its group has outside, where only that group is mounted.
        group = top / path.removeprefix(above).lstrip("/") if path.startswith(f"{above}/") else top
        for directory in (group, *group.parents):
            with suppress(OSError, ValueError):  # the root group has no limit, and "max" is none
                yield int((directory / file).read_text())
            if directory == top:
                break


def shared_bytes(memory: int, jobs: int) -> int:
    """What the budgets share: without what processes take by themselves, and a sixteenth for what nobody counts."""
    processes = SERVICE_BYTES + children(jobs) * CHILD_BYTES
    return max(memory - memory // 16 - processes, memory // 8)


def children(jobs: int) -> int:
    """How many processes beside the service may do something: as many rebuilds as jobs, an import, an older version."""
    return 2 * jobs + 2
