"""What the disk of the temporary directory can do, measured without the service."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

APPEND_BYTES = 1_024
BLOCK_BYTES = 5 * 2**20
"""About what 10,000 rounds of 64 numbers take."""
FILE_BYTES_MAX = 2 * 2**30


def fsync_p99(directory: Path, seconds: float) -> float:
    """Seconds that a small append and its fsync take, in 99 of 100 cases."""
    return quantile(list(_appends(directory, bytes(APPEND_BYTES), seconds)), 0.99)


def write_rate(directory: Path, seconds: float) -> float:
    """Bytes a second, written one block after the other, each with an fsync."""
    took = list(_appends(directory, os.urandom(BLOCK_BYTES), seconds))
    return BLOCK_BYTES * len(took) / sum(took)


def _appends(directory: Path, block: bytes, seconds: float) -> Iterator[float]:
    """Append a block and fsync, again and again; how long each took."""
    path = directory / "appends"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        began = time.perf_counter()
        written = 0
        while time.perf_counter() < began + seconds and written < FILE_BYTES_MAX:
            start = time.perf_counter()
            written += os.write(file, block)
            os.fsync(file)
            yield time.perf_counter() - start
    finally:
        os.close(file)
        path.unlink()


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed.

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5)
    3.0
    """
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
