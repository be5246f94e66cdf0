"""How memory that was freed is kept for what needs it next.

glibc gives larger blocks back to the system when they are freed, and takes them again, page by page, with the next
one. It learns by itself not to, but only of blocks as large as it has seen freed. Streams need a few such blocks for
every event: a thousand of their rounds cost up to 270 page faults here and 350 in the process that writes the journal.
"""

import ctypes
import os
from contextlib import suppress

KEPT_BYTES = {"MMAP_THRESHOLD": 2**25, "TRIM_THRESHOLD": 2**26}
"""Blocks up to the first are kept, until the second is free at the end of the heap: as far as glibc goes by itself."""

_OPTIONS = {"MMAP_THRESHOLD": -3, "TRIM_THRESHOLD": -1}


def keep_freed_memory() -> None:
    """From now on, in this process; without glibc, nothing is changed."""
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, kept in KEPT_BYTES.items():
            mallopt(_OPTIONS[option], kept)


def environment() -> dict[str, str]:
    """That of a child process which keeps it from its start: to call glibc, it would have to load more modules."""
    return os.environ | {f"MALLOC_{option}_": str(kept) for option, kept in KEPT_BYTES.items()}
