"""How memory that was freed is kept for what needs it next, or goes back to the system.

By itself glibc gives large blocks pages of their own until the first of them is freed, and from then on takes blocks of
that size from its heaps, of which each thread may have one. There small things that stay keep what is free around them.
After requests for exports, forks and older versions of large models by several clients at once, up to 180 MB were free
and still with the process. But what every event of a stream needs is better kept: to get its pages anew each time took
up to 270 page faults for a thousand rounds here, and 350 in the process that writes the journal.

With another C library nothing is changed.
"""

import ctypes
import os
from pathlib import Path

OWN_PAGES_BYTES = 33_554_432
KEPT_FREE_BYTES = 67_108_864
"""Blocks of the one size get pages of their own, and as much as the other may lie free at the end of a heap until it is
given back: as far as glibc goes by itself."""

GIVE_BACK_SECONDS = 2.0
RESIDENT_BYTES_MIN = 268_435_456
"""How often what is free within the heaps should be given back, once the process has so much: of less it would soon
need it again. For 65 MB it took 6 ms."""

_OPTIONS = {
    "TRIM_THRESHOLD": (-1, KEPT_FREE_BYTES),
    "MMAP_THRESHOLD": (-3, OWN_PAGES_BYTES),
    "ARENA_MAX": (-8, 1),
}
"""With their numbers in malloc.h."""

_library = ctypes.CDLL(None)


def manage_memory() -> None:
    """From now on, in this process."""
    # Its own allocator would keep as much as it once needed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if hasattr(_library, "mallopt"):
        for number, value in _OPTIONS.values():
            _library.mallopt(number, value)


def may_have_too_much() -> bool:
    """Whether this process is so large that what is free of its memory should be given back now and then."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # there is no /proc, or no file can be opened just now
        return False
    return hasattr(_library, "malloc_trim") and pages * os.sysconf("SC_PAGE_SIZE") >= RESIDENT_BYTES_MIN


def give_free_memory_back() -> None:
    """To be called in a thread: others go on, but for some milliseconds that it may take."""
    _library.malloc_trim(0)


def environment() -> dict[str, str]:
    """That of a child process with the same from its start: to call the C library, it would load more modules."""
    return os.environ | {f"MALLOC_{name}_": str(value) for name, (_, value) in _OPTIONS.items()}
