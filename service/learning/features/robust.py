"""`standardize` from rules 3 on: scales that survive outliers, sentinel values and changes of unit.

What is absorbed is clipped to the mean ± `REACH` deviations, and what comes out to ± `CLIP`. Beside the moments of all
values those of the last ones that are not 0 are kept, a block of `BLOCK` or a few more, and those of the values that
were out of reach. Of the first `BLOCK` values a block is half as long. At the end of a block a feature begins anew

- from the values out of reach, if there are `BEYOND_MIN`: its unit has grown;
- from the block, if that varies and all of it is less than the usual magnitude by a factor of `SHRUNK`: its unit has
  shrunk;
- from the block, if one value makes up `OUTLIER_SHARE` of the variance and the block has a tenth of the deviation: that
  value was an outlier among the first, when nothing could be clipped.

Scales change after each of the first `AT_ONCE_FROM` examples, then after every `BLOCK`; those of sparse features, of
which few are present at a time, after each.
"""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.standardize import MEAN_MAX, SQUARES_MAX, Centred, Scaled, width_of
from service.learning.saved import packed
from service.learning.vectors import Array, Indices, Vector, room_for

REACH = 10.0
"""Deviations from the mean beyond which values are clipped before they are absorbed."""

CLIP = 6.0
"""No standardized value is larger: one outlier must not move weights for thousands of rounds."""

BLOCK = 16
"""With fewer values than this nothing is clipped, as nothing is known."""

AT_ONCE_FROM = 8 * BLOCK
"""Dense examples are absorbed one by one until there were so many, then `BLOCK` at once."""

BEYOND_MIN = 8
SHRUNK = 30.0
OUTLIER_SHARE = 0.9
OUTLIER_AFTER = 32

ALL, RECENT, BEYOND = slice(0, 3), slice(3, 6), slice(6, 9)
"""Count, mean and squared distances from it: of what was absorbed, of the block, and of its values out of reach."""

LEAST, MOST, TOP, SINCE = 9, 10, 11, 12
"""The least and the largest value absorbed, and 0; the largest magnitude in the block; of sparse features also the
number of examples that do not count any more."""


def absorb(kept: Array, rows: Array, constant: Any) -> Any:
    """Take in rows of values, a column for each of `kept`; where it began anew, None if nowhere.

    What has not varied yet, `constant`, counts as `BLOCK` values at most, so that it is soon forgotten.
    """
    count, mean, squares = kept[ALL]
    np.minimum(count, BLOCK, out=count, where=constant)
    magnitudes = np.abs(rows)
    np.maximum(kept[TOP], np.maximum.reduce(magnitudes, axis=0), out=kept[TOP])
    is_known = (count >= BLOCK) & (squares > 0)
    reach = REACH * np.sqrt(np.divide(squares, count, out=np.full(count.shape, np.inf), where=is_known))
    off = rows - mean
    beyond = np.abs(off) > reach
    every = _moments(rows, None)
    if magnitudes.all():
        _add(kept[RECENT], every)
    else:
        _add(kept[RECENT], _moments(rows, rows != 0))
    if beyond.any():
        _add(kept[BEYOND], _moments(rows, beyond & (rows != 0)))
        rows = np.where(beyond, mean + np.minimum(np.maximum(off, -reach), reach), rows)
        every = _moments(rows, None)
    np.minimum(kept[LEAST], np.minimum.reduce(rows, axis=0), out=kept[LEAST])
    np.maximum(kept[MOST], np.maximum.reduce(rows, axis=0), out=kept[MOST])
    _add(kept[ALL], every)
    full = kept[RECENT][0] >= np.where(kept[0] > BLOCK, BLOCK, BLOCK // 2)
    return _end_blocks(kept, full) if full.any() else None


def _moments(rows: Array, taken: Any) -> tuple[Any, Array, Any]:
    """Count, mean and squared distances from it of what is taken of each column; of all, if that is None."""
    if taken is None:
        if len(rows) == 1:
            return 1.0, rows[0], 0.0
        mean = np.add.reduce(rows, axis=0) / len(rows)
        off = rows - mean
        return float(len(rows)), mean, np.add.reduce(off * off, axis=0)
    count = np.add.reduce(taken, axis=0, dtype=np.float64)
    mean = np.add.reduce(np.where(taken, rows, 0.0), axis=0) / np.maximum(count, 1.0)
    off = np.where(taken, rows - mean, 0.0)
    return count, mean, np.add.reduce(off * off, axis=0)


def _add(moments: Array, more: tuple[Any, Array, Any]) -> None:
    """Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979."""
    had, mean, squares = moments
    count = had + more[0]
    share = more[0] / np.maximum(count, 1.0)
    apart = (more[1] - mean) * share
    squares += more[2] + apart * (more[1] - mean) * had
    mean += apart
    had[...] = count


def _end_blocks(kept: Array, full: Any) -> Any:
    count, mean, squares = kept[ALL]
    of_block, _, block_squares = kept[RECENT]
    variance = squares / np.maximum(count, 1.0)
    farthest = np.maximum(kept[MOST] - mean, mean - kept[LEAST])
    grown = full & (kept[BEYOND][0] >= BEYOND_MIN)
    shrunk = (block_squares > 0) & (SHRUNK * SHRUNK * kept[TOP] * kept[TOP] < mean * mean + variance)
    outlier = (count > OUTLIER_AFTER) & (100.0 * block_squares < variance * np.maximum(of_block, 1.0))
    outlier &= farthest * farthest * count > OUTLIER_SHARE * squares * (count - 1.0)
    anew = grown | (full & (shrunk | outlier))
    if anew.any():
        source = np.where(grown, kept[BEYOND], kept[RECENT])
        kept[ALL] = np.where(anew, source, kept[ALL])
        most = np.sqrt(source[2])  # so far from the mean one of them may be
        kept[LEAST] = np.where(anew, source[1] - most, kept[LEAST])
        kept[MOST] = np.where(anew, source[1] + most, kept[MOST])
    kept[RECENT.start : BEYOND.stop, full] = kept[TOP, full] = 0.0
    return anew if anew.any() else None


class RobustCentred:
    """For dense features: (x - mean) / deviation."""

    __slots__ = ("_factor", "_kept", "_seen", "_waiting")

    def __init__(self) -> None:
        self._seen = 0
        self._start(0)

    def _start(self, size: int) -> None:
        self._kept = np.zeros((TOP + 1, size))
        self._waiting: Array = np.zeros((BLOCK, size))  # of the last examples, what is not absorbed yet
        self._factor: Array = np.zeros(size)

    @property
    def seen(self) -> int:
        """How many examples were absorbed, or wait for it."""
        return self._seen

    @property
    def _waits(self) -> int:
        return self._seen % BLOCK if self._seen > AT_ONCE_FROM else 0

    def apply(self, x: Vector) -> Vector:
        return Vector(self._scaled(x.values) if self._seen else np.zeros(len(x.values)))

    def _scaled(self, values: Array) -> Array:
        scaled: Array = values - self._kept[1]
        scaled *= self._factor
        np.maximum(scaled, -CLIP, out=scaled)
        np.minimum(scaled, CLIP, out=scaled)
        return scaled

    def absorb(self, x: Vector) -> Indices | None:
        if not self._seen:
            self._start(len(x.values))
        waits = self._waits
        self._waiting[waits] = x.values
        self._seen += 1
        if 0 < self._waits < BLOCK:
            return None
        anew = absorb(self._kept, self._waiting[: waits + 1], self._kept[2] == 0)
        self._measure()
        return None if anew is None else np.flatnonzero(anew)

    def _measure(self) -> None:
        deviation = np.sqrt(self._kept[2] / np.maximum(self._kept[0], 1.0))
        self._factor = np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=deviation > 0)

    def apply_and_absorb(self, rows: Array) -> Array:
        """Apply it to each row and then absorb the row, one after the other, to the same bit as one by one."""
        if not self._seen:
            self._start(rows.shape[1])
        scaled = np.zeros(rows.shape)
        at = 0
        while at < len(rows):
            waits = self._waits
            # All but the last of a block change nothing yet.
            end = min(len(rows), at + (BLOCK - waits if self._seen >= AT_ONCE_FROM else 1))
            if self._seen:
                scaled[at:end] = self._scaled(rows[at:end])
            self._waiting[waits : waits + end - at - 1] = rows[at : end - 1]
            self._seen += end - at - 1
            self.absorb(Vector(rows[end - 1]))
            at = end
        return scaled

    def factors(self, size: int) -> tuple[Array, Array]:
        """The means and what is multiplied by then: (x - mean) · factor."""
        return (self._kept[1], self._factor) if self._seen else (np.zeros(size), np.zeros(size))

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {
            "seen": self._seen,
            "kept": self._kept.copy(),
            "waiting": self._waiting[: self._waits].copy(),
        }

    def restore(self, state: Any, size: int) -> None:
        seen, kept, waiting = saved.fields(state, "seen", "kept", "waiting")
        self._seen = saved.whole(seen, "seen", saved.ROUNDS_MAX)
        self._start(size if self._seen else 0)
        self._kept = saved.array(kept, "kept", self._kept.shape, most=SQUARES_MAX, least=-SQUARES_MAX)
        _check(self._kept, self._seen)
        shape = (self._waits, len(self._factor))
        self._waiting[: self._waits] = saved.array(waiting, "waiting", shape, least=-MEAN_MAX, most=MEAN_MAX)
        self._measure()


class RobustScaled:
    """For sparse features: x / deviation. Absent features count as 0 in the deviation and stay absent.

    Not centred, and what is kept is that of the values present: see `Scaled`. A value counts as `CLIP` times the root
    of the mean square of these at most. A feature that begins anew keeps the share of examples that have it.
    """

    __slots__ = ("_kept", "_seen", "_size")

    def __init__(self) -> None:
        self._seen = 0
        self._size = 0
        self._kept: Array = np.zeros((SINCE + 1, 0))

    @property
    def seen(self) -> int:
        """How many examples were absorbed."""
        return self._seen

    def apply(self, x: Vector) -> Vector:
        assert x.indices is not None
        if not self._size:
            return Vector(np.zeros(len(x.values)), x.indices)
        known = np.minimum(x.indices, self._size - 1)
        present, mean, squares, since = self._kept[np.array((0, 1, 2, SINCE))[:, np.newaxis], known]
        largest = CLIP * np.sqrt(mean * mean + squares / np.maximum(present, 1.0))
        examples = self._seen - since
        variance = (squares + mean * mean * present * ((examples - present) / examples)) / examples
        deviation = np.where(known == x.indices, np.sqrt(np.maximum(variance, 0.0)), 0.0)
        values = np.minimum(np.maximum(x.values, -largest), largest)
        return Vector(np.divide(values, deviation, out=np.zeros(len(values)), where=deviation > 0), x.indices)

    def absorb(self, x: Vector) -> Indices | None:
        assert x.indices is not None
        self._seen += 1
        if not len(x.indices):
            return None
        self._size = max(self._size, int(x.indices.max()) + 1)
        self._kept = room_for(self._kept, SINCE + 1, self._size)
        kept = self._kept[:, x.indices]
        present, examples = kept[0] + 1.0, self._seen - kept[SINCE]
        anew = absorb(kept, x.values[np.newaxis], (kept[2] == 0) & (present == examples))
        kept[SINCE] += examples * (1.0 - kept[0] / present)
        self._kept[:, x.indices] = kept
        return None if anew is None else x.indices[anew]

    def factors(self, size: int) -> tuple[Array, Array]:
        """Zeros, as nothing is taken away, and what is multiplied by."""
        known = self._kept[:, : self._size]
        ones = np.sqrt(known[1] * known[1] + known[2] / np.maximum(known[0], 1.0))  # not clipped
        factor = np.zeros(size)
        scaled = self.apply(Vector(ones, np.arange(self._size))).values
        np.divide(scaled, ones, out=factor[: self._size], where=ones > 0)
        return np.zeros(size), factor

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {"seen": self._seen, "kept": packed(self._kept[:, : self._size])}

    def restore(self, state: Any, size: int) -> None:
        seen, kept = saved.fields(state, "seen", "kept")
        self._seen = saved.whole(seen, "seen", saved.ROUNDS_MAX)
        self._size = width_of(kept, size if self._seen else 0)
        shape = (SINCE + 1, self._size)
        self._kept = saved.array(kept, "kept", shape, most=SQUARES_MAX, least=-SQUARES_MAX)
        _check(self._kept, self._seen)
        since = self._kept[SINCE]
        fits = (since >= 0) & (since + self._kept[0] <= self._seen * (1.0 + 1e-9))
        saved.check(bool(fits.all()), "kept", "must leave out at most the examples without the feature")


def _check(kept: Array, seen: int) -> None:
    """`saved.BadState` unless these can be the moments of so many examples."""
    counts, means, squares = kept[0:9:3], kept[1:9:3], kept[2:9:3]
    is_count = (counts == np.rint(counts)) & (counts >= 0) & (counts <= seen)
    saved.check(bool(is_count.all()), "kept", "must have whole counts, at most `seen`")
    saved.check(bool((squares >= 0).all()), "kept", "must have no negative squares")
    of_values = np.concatenate((means, kept[LEAST : TOP + 1]))
    saved.check(bool((np.abs(of_values) <= 100 * MEAN_MAX).all()), "kept", "must have values in range")


Scale = Centred | Scaled | RobustCentred | RobustScaled


def new_scale(*, is_dense: bool, robust: bool) -> Scale:
    if robust:
        return RobustCentred() if is_dense else RobustScaled()
    return Centred() if is_dense else Scaled()


def numbers_of_scale(*, is_dense: bool, robust: bool) -> int:
    """How many numbers it keeps for each feature."""
    if robust:
        return TOP + 2 + BLOCK if is_dense else SINCE + 1
    return 2 if is_dense else 3
