"""Memory of this process: how much it may take, how what was freed goes back, and libraries that it does without."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from time import monotonic
from types import ModuleType

MEBIBYTE = 1_048_576

SERVICE_BYTES = 96 * MEBIBYTE
"""The service and its writer, with next to nothing to do, take so much."""
CHILD_BYTES = 24 * MEBIBYTE
"""And a process of a job, beside what it is given."""

OWN_PAGES_BYTES = 33_554_432
KEPT_FREE_BYTES = 67_108_864
"""Blocks of the one size get pages of their own, and as much as the other may lie free at the end of a heap until it is
given back: as far as glibc goes by itself."""

GIVE_BACK_SECONDS = 2.0
GROWTH_BYTES = 33_554_432
RESIDENT_BYTES_MIN = 268_435_456
"""What is free within the heap is given back so often, and earlier if the process has grown by so much; but only by one
that has the last of these: of less it would soon need it again. For 65 MB it took 6 ms."""

_OPTIONS = {
    "TRIM_THRESHOLD": (-1, KEPT_FREE_BYTES),
    "MMAP_THRESHOLD": (-3, OWN_PAGES_BYTES),
    "ARENA_MAX": (-8, 1),
}
"""With their numbers in malloc.h."""

_library = ctypes.CDLL(None)

UNUSED = frozenset({"pandas", "pydantic.v1"})
"""pyarrow loads pandas, where it is installed, to see whether it was given a series: 54 MB, and half a second during
which the event loop waits for the interpreter. FastAPI loads pydantic.v1 to see whether a route takes a model of it."""


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


def manage_memory() -> None:
    """From now on, in this process: to be called before it has threads, which would already have heaps of their own.

    All threads share one heap: each with its own would keep what is free in it, up to 80 MB of one. By itself glibc
    gives large blocks pages of their own until the first of them is freed, and from then on takes blocks of that size
    from its heap, where small things that stay keep what is free around them. After requests for exports, forks and
    older versions of large models by several clients at once, up to 180 MB were free and still with the process. But
    what every event of a stream needs is better kept: to get its pages anew each time took up to 270 page faults for a
    thousand rounds here, and 350 in the process that writes the journal. With another C library nothing is changed.
    """
    # Its own allocator would keep as much as it once needed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if hasattr(_library, "mallopt"):
        for number, value in _OPTIONS.values():
            _library.mallopt(number, value)


class FreeMemory:
    """Gives that of this process back to the system when it may be much."""

    def __init__(self) -> None:
        self._bytes_left = 0
        """What the process had when it was done last."""
        self._next = 0.0
        """When it is to be done again at the latest."""
        self._is_under_way = False

    def look(self) -> None:
        """To be called on the event loop, now and then."""
        if not self._is_under_way and self._is_due():
            self._is_under_way = True
            asyncio.get_running_loop().run_in_executor(None, self._give_back)

    def _is_due(self) -> bool:
        resident = _resident_bytes()
        if resident < RESIDENT_BYTES_MIN:
            return False
        return resident >= self._bytes_left + GROWTH_BYTES or monotonic() >= self._next

    def _give_back(self) -> None:
        """In a thread: others go on, but for some milliseconds that it may take."""
        _library.malloc_trim(0)
        self._bytes_left, self._next = _resident_bytes(), monotonic() + GIVE_BACK_SECONDS
        self._is_under_way = False


def _resident_bytes() -> int:
    """What the system counts as this process's; 0 if it is unknown, or nothing could be done about it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # there is no /proc, or no file can be opened at the moment
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") if hasattr(_library, "malloc_trim") else 0


def environment_of_child() -> dict[str, str]:
    """That of a child process with the same from its start: to call the C library, it would load more modules."""
    return os.environ | {f"MALLOC_{name}_": str(value) for name, (_, value) in _OPTIONS.items()}


class _Without(MetaPathFinder):
    """Finds that they are not installed, which callers that work without them handle."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in UNUSED:
            raise ModuleNotFoundError(f"{name} is not loaded in this process", name=name)


def do_without_unused() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, _Without())
