"""How memory that was freed is kept for what needs it next, or goes back to the system.

By itself glibc gives large blocks pages of their own until the first of them is freed, and from then on takes blocks of
that size from its heaps. There small things that stay keep the pages around them from being given back: copies, states
and exports of large models that several clients had asked for at once left 250 MB behind, and with this 100. But what
every event of a stream needs is better kept: to get its pages anew each time took up to 270 page faults for a thousand
rounds here, and 350 in the process that writes the journal.
"""

import ctypes
import os

OWN_PAGES_BYTES = 4_194_304
"""Blocks of this size get pages of their own. Those of an event of a stream have a quarter."""

KEPT_FREE_BYTES = 16_777_216
"""What may lie free at the end of a heap."""

_OPTIONS = {"TRIM_THRESHOLD": (-1, KEPT_FREE_BYTES), "MMAP_THRESHOLD": (-3, OWN_PAGES_BYTES)}
"""With their numbers in the C library's malloc.h."""


def manage_memory() -> None:
    """From now on, in this process. With another C library nothing is changed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for number, value in _OPTIONS.values():
        mallopt(number, value)


def environment() -> dict[str, str]:
    """That of a child process with the same from its start: to call the C library, it would load more modules."""
    return os.environ | {f"MALLOC_{name}_": str(value) for name, (_, value) in _OPTIONS.items()}
