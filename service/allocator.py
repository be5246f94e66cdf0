"""The memory of large arrays goes back to the system as soon as they are gone."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""As the C library's malloc.h has them."""

OWN_PAGES_BYTES = 1_048_576
"""An array of this size gets pages of its own: as many bytes as the numbers of a large model take."""

KEPT_FREE_BYTES = 16_777_216
"""What may lie free at the end of a heap, so that the arrays of one round after the other are made there at no cost."""


def give_large_arrays_back() -> None:
    """Give arrays that are large pages of their own, which glibc does only until the first of them is freed.

    From then on it takes arrays of that size from its heaps, where small things that stay keep the pages around them
    from being given back. Copies, states and exports of large models that several clients had asked for at once left
    250 MB behind, and with this 100. With another C library nothing is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES)
