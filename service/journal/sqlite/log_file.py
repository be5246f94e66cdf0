"""Reads the log that SQLite keeps beside its file (`-wal`), to tell damage from what a crash leaves behind.

SQLite goes through the log up to the first frame whose checksum does not fit and forgets the rest without a word. That
is right after a power cut, when the last transaction was written in part. It is wrong when a bit has turned over in the
middle: then what comes after it was acknowledged. The format is described at sqlite.org/fileformat2.html#walformat.
"""

from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.journal.sqlite.acknowledged import FRAME_HEADER_BYTES, LOG_HEADER_BYTES

MAGIC = 0x377F0682  # plus one if checksums are over big-endian words

Checksum = tuple[int, int]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Frame:
    """One page, as a transaction has left it."""

    page: int
    database_pages: int
    """How many pages the file has after the transaction that this frame ends; 0 if it ends none."""
    has_salts: bool
    """Whether it says that it was written since the log was last begun anew, and not before."""
    is_of_this_log: bool
    """Whether it was: it says so, or it follows one that was, and a bit of what it says has turned."""
    checksum: Checksum
    follows: bool
    """Whether its checksum fits what is in it and the checksum of the frame before, as that is or as it ought to be."""
    content: memoryview


@dataclass(frozen=True, slots=True)
class Log:
    """The frames of a log, those behind the last valid one included."""

    page_bytes: int
    salts: bytes
    is_header_valid: bool
    frames: list[Frame]

    @property
    def valid(self) -> int:
        """How many frames SQLite goes through."""
        if not self.is_header_valid:
            return 0
        bad = (i for i, frame in enumerate(self.frames) if not (frame.has_salts and frame.follows))
        return next(bad, len(self.frames))

    def frames_followed(self) -> int:
        """How many frames belong to transactions that others come after.

        These were durable if each transaction is synced before the next one is written.
        """
        last = max((i for i, frame in enumerate(self.frames) if frame.is_of_this_log), default=-1)
        ends = (i + 1 for i, frame in enumerate(self.frames[: max(last, 0)]) if _ends_transaction(frame))
        return max(ends, default=0)

    def frames_ended(self, acknowledged: int) -> int:
        """How many frames belong to transactions that were ended, as far as can be told; so many were acknowledged.

        Of the last one a kill may leave the head of a frame, which says that the transaction ends, and not its page.
        """
        known = max(self.frames_followed(), min(acknowledged, len(self.frames)))
        whole = takewhile(lambda frame: frame.is_of_this_log and frame.follows, self.frames[known:])
        return known + len(list(whole))

    def committed(self, frames: int) -> dict[int, memoryview]:
        """The pages that the first so many frames leave, those of a transaction without an end left out."""
        whole = frames
        while whole and not _ends_transaction(self.frames[whole - 1]):
            whole -= 1
        ours = (frame for frame in self.frames[:whole] if frame.page and frame.is_of_this_log)
        return {frame.page: frame.content for frame in ours}

    def database_pages(self, frames: int) -> int | None:
        """How many pages the file has after the first so many frames; None if they end no transaction."""
        ends = (frame.database_pages for frame in reversed(self.frames[:frames]) if _ends_transaction(frame))
        return next(ends, None)


def _ends_transaction(frame: Frame) -> bool:
    return frame.is_of_this_log and frame.database_pages > 0


def read_log(path: Path) -> Log | None:
    """The log beside a SQLite file; None if there is none, or nothing in it."""
    try:
        return log_in(path.with_name(f"{path.name}-wal").read_bytes())
    except FileNotFoundError:
        return None


def log_in(content: bytes) -> Log | None:
    if len(content) < LOG_HEADER_BYTES:
        return None
    header = np.frombuffer(content[:LOG_HEADER_BYTES], ">u4").tolist()
    order = ">u4" if header[0] & 1 else "<u4"
    page_bytes = header[2]
    is_valid = header[0] | 1 == MAGIC | 1 and page_bytes in (1 << n for n in range(9, 17))
    if not is_valid:
        page_bytes = 8192  # ours: frames can be told by themselves
    is_valid = is_valid and _sum(np.frombuffer(content[:24], order)) == (header[6], header[7])
    salts = content[16:24] if is_valid else content[LOG_HEADER_BYTES + 8 : LOG_HEADER_BYTES + 16]
    # The order may be what is damaged: then the frames tell it.
    tried = [_frames(content, page_bytes, one, (header[6], header[7]), salts)
             for one in ([order] if is_valid else ("<u4", ">u4"))]  # fmt: skip
    return Log(page_bytes, salts, is_valid, max(tried, key=lambda frames: sum(one.follows for one in frames)))


def _frames(content: bytes, page_bytes: int, order: str, before: Checksum, salts: bytes) -> list[Frame]:
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    count = (len(content) - LOG_HEADER_BYTES) // frame_bytes
    rows = np.frombuffer(content, np.uint8, count * frame_bytes, LOG_HEADER_BYTES).reshape(count, frame_bytes)
    heads = np.ascontiguousarray(rows[:, :FRAME_HEADER_BYTES]).view(">u4").tolist()
    sums = _sums(1 + page_bytes // 8)
    view = memoryview(content)
    frames: list[Frame] = []
    ought = before  # what the checksum of the frame before ought to be, by what is in it
    for i, head in enumerate(heads):
        start = LOG_HEADER_BYTES + i * frame_bytes
        words = np.frombuffer(
            content[start : start + 8] + content[start + FRAME_HEADER_BYTES : start + frame_bytes], order
        )
        checksum = (head[4], head[5])
        has_salts = content[start + 8 : start + 16] == salts
        fitting = sums.of(words, before)
        follows = fitting == checksum or (ought != before and sums.of(words, ought) == checksum)
        frames.append(
            Frame(
                head[0],
                head[1],
                has_salts,
                has_salts or (follows and (not frames or frames[-1].is_of_this_log)),
                checksum,
                follows,
                view[start + FRAME_HEADER_BYTES : start + frame_bytes],
            )
        )
        before, ought = checksum, fitting
    return frames


class _Sums:
    """SQLite's checksum of blocks of a fixed size, as one sum of products instead of a loop over their words.

    For each pair of words x, y the checksum (a, b) becomes (a + x + b, b + y + the new a), modulo 2**32. That is
    linear, so each word counts with a factor of its own.
    """

    def __init__(self, pairs: int) -> None:
        powers = [(1, 0, 0, 1)]  # of the matrix (1 1; 1 2) by which a pair takes the checksum on
        for _ in range(pairs):
            p, q, r, s = powers[-1]
            powers.append(((p + q) & _ALL, (p + 2 * q) & _ALL, (r + s) & _ALL, (r + 2 * s) & _ALL))
        self._whole = powers[-1]
        factors = np.array(powers[:-1][::-1], np.uint32)
        # A pair adds (x, x + y).
        self._of_x = np.stack([factors[:, 0] + factors[:, 1], factors[:, 2] + factors[:, 3]])
        self._of_y = np.stack([factors[:, 1], factors[:, 3]])

    def of(self, words: Words, before: Checksum) -> Checksum:
        pairs = words.astype(np.uint32).reshape(-1, 2)
        a, b = ((self._of_x * pairs[:, 0]) + (self._of_y * pairs[:, 1])).sum(axis=1, dtype=np.uint32).tolist()
        p, q, r, s = self._whole
        return (p * before[0] + q * before[1] + a) & _ALL, (r * before[0] + s * before[1] + b) & _ALL


@cache
def _sums(pairs: int) -> _Sums:
    """There are two sizes: that of a header, and that of a page."""
    return _Sums(pairs)


_ALL = 0xFFFFFFFF


def _sum(words: Words) -> Checksum:
    return _sums(len(words) // 2).of(words, (0, 0))
