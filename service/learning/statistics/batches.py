"""Batches of reveals, which grow as a stream does: what changes with them is the same for many rounds at once."""

from __future__ import annotations

GROUP = 32
"""The probabilities of so many reveals are multiplied before the product is split into mantissa and exponent: no
probability is below 1e-7, so none of these products leaves the range of numbers."""

BATCH_MAX = 1024


def batch_size(seen: int) -> int:
    """How many reveals are in the batch of the reveal with this number: batches end at multiples of their size.

    >>> [batch_size(seen) for seen in (32, 33, 128, 129, 512, 513, 2048, 2049, 8192, 8193)]
    [1, 8, 8, 16, 16, 64, 64, 256, 256, 1024]
    """
    if seen <= 512:
        return 1 if seen <= 32 else 8 if seen <= 128 else 16
    return 64 if seen <= 2048 else 256 if seen <= 8192 else BATCH_MAX


def end_after(seen: int) -> int:
    """The first reveal after this one that ends a group or a batch.

    >>> [end_after(seen) for seen in (0, 1, 32, 39, 40, 128, 159, 5000)]
    [1, 2, 40, 40, 48, 144, 160, 5024]
    """
    size = min(GROUP, batch_size(seen + 1))
    return seen - seen % size + size
