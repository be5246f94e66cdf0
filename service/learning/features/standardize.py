"""Features brought to the same scale by their running mean and variance, from revealed examples only.

Variances are of the population (divided by n) and are kept by Welford's update, which does not lose them
to cancellation. A feature that has not varied yet tells nothing and is 0.
"""

from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.expansion import FEATURES_MAX
from service.learning.saved import packed
from service.learning.vectors import LARGEST, Array, Vector, room_for

MEAN_MAX = LARGEST * FEATURES_MAX
"""The features that fall into one slot of hashed features are added up."""

SQUARES_MAX = 4 * MEAN_MAX * MEAN_MAX * saved.ROUNDS_MAX
"""What the squares of so many deviations can add up to."""


def _scaled(values: Array, variance: Array) -> Array:
    """values / √variance, 0 where there is no variance, and never beyond the largest feature.

    >>> _scaled(np.array([3.0, 3.0, 1e100]), np.array([4.0, 0.0, 1e-290])).tolist()
    [1.5, 0.0, 1e+100]
    """
    deviation = np.sqrt(variance)
    quotient = np.divide(values, deviation, out=np.zeros(values.shape), where=deviation > 0)
    return np.clip(quotient, -LARGEST, LARGEST)


class Centred:
    """For dense features: (x - mean) / deviation."""

    __slots__ = ("_mean", "_seen", "_squares")

    def __init__(self) -> None:
        self._seen = 0
        self._mean: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)

    @property
    def seen(self) -> int:
        """How many examples were absorbed."""
        return self._seen

    def apply(self, x: Vector) -> Vector:
        if not self._seen:
            return Vector(np.zeros(len(x.values)))
        return Vector(_scaled(x.values - self._mean, self._squares / self._seen))

    def absorb(self, x: Vector) -> None:
        if not self._seen:
            self._mean = np.zeros(len(x.values))
            self._squares = np.zeros(len(x.values))
        self._seen += 1
        off = x.values - self._mean
        self._mean += off / self._seen
        self._squares += off * (x.values - self._mean)

    def apply_and_absorb(self, rows: Array) -> Array:
        """Apply it to each row and then absorb the row, one after the other, to the same bit as one by one."""
        count, size = rows.shape
        means, squares = np.zeros((count + 1, size)), np.zeros((count + 1, size))
        if self._seen:
            means[0], squares[0] = self._mean, self._squares
        seen = np.arange(self._seen, self._seen + count + 1.0)[:, np.newaxis]
        moved = np.empty(size)
        subtract, divide, add = np.subtract, np.divide, np.add
        for x, total, mean, following in zip(rows, seen[1:], means[:-1], means[1:], strict=True):
            subtract(x, mean, moved)
            divide(moved, total, moved)
            add(mean, moved, following)
        off = rows - means[:-1]
        np.multiply(off, rows - means[1:], out=squares[1:])
        np.add.accumulate(squares, out=squares)
        scaled = _scaled(off, squares[:-1] / np.maximum(seen[:-1], 1.0))
        self._seen += count
        self._mean, self._squares = means[-1].copy(), squares[-1].copy()
        return scaled

    def factors(self, size: int) -> tuple[Array, Array]:
        """The means and what is multiplied by then: (x - mean) · factor."""
        if not self._seen:
            return np.zeros(size), np.zeros(size)
        return self._mean, _scaled(np.ones(size), self._squares / self._seen)

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {"seen": self._seen, "mean": self._mean.copy(), "squares": self._squares.copy()}

    def restore(self, state: Any, size: int) -> None:
        seen, mean, squares = saved.fields(state, "seen", "mean", "squares")
        self._seen = saved.whole(seen, "seen", saved.ROUNDS_MAX)
        shape = (size if self._seen else 0,)
        self._mean = saved.array(mean, "mean", shape, least=-MEAN_MAX, most=MEAN_MAX)
        self._squares = saved.array(squares, "squares", shape, least=0.0, most=SQUARES_MAX)


class Scaled:
    """For sparse features: x / deviation. Absent features count as 0 in the deviation and stay absent.

    Not centred: taking the mean away would give every absent feature a value. Only the features that are
    present cost anything, since the zeros of the others are made up for when they are next looked at: c
    values with the mean m and n - c zeros together have m² c (n - c) / n more squares than the c alone.
    """

    __slots__ = ("_kept", "_seen", "_size")

    def __init__(self) -> None:
        self._seen = 0
        self._size = 0
        self._kept: Array = np.zeros((3, 0))  # for each feature: how often present; then mean, squares

    @property
    def seen(self) -> int:
        """How many examples were absorbed."""
        return self._seen

    def apply(self, x: Vector) -> Vector:
        assert x.indices is not None
        if not self._size:
            return Vector(np.zeros(len(x.values)), x.indices)
        known = np.minimum(x.indices, self._size - 1)
        present, mean, squares = self._kept[:, known]
        squares = squares + mean * mean * present * ((self._seen - present) / self._seen)
        variance = np.where(known == x.indices, squares / self._seen, 0.0)
        return Vector(_scaled(x.values, variance), x.indices)

    def absorb(self, x: Vector) -> None:
        assert x.indices is not None
        self._seen += 1
        if not len(x.indices):
            return
        self._size = max(self._size, int(x.indices.max()) + 1)
        self._kept = room_for(self._kept, 3, self._size)
        present, mean, squares = self._kept[:, x.indices]
        present = present + 1.0
        off = x.values - mean
        mean = mean + off / present
        self._kept[:, x.indices] = present, mean, squares + off * (x.values - mean)

    def factors(self, size: int) -> tuple[Array, Array]:
        """Zeros, as nothing is taken away, and what is multiplied by."""
        return np.zeros(size), self.apply(Vector(np.ones(size), np.arange(size))).values

    def size(self, size: int) -> int:
        return size

    def state(self) -> dict[str, Any]:
        return {"seen": self._seen, "kept": packed(self._kept[:, : self._size])}

    def restore(self, state: Any, size: int) -> None:
        seen, kept = saved.fields(state, "seen", "kept")
        self._seen = saved.whole(seen, "seen", saved.ROUNDS_MAX)
        self._size = width_of(kept, size if self._seen else 0)
        self._kept = saved.array(kept, "kept", (3, self._size), most=SQUARES_MAX)
        present, mean, squares = self._kept
        saved.check(
            bool((present == np.rint(present)).all() and (present >= 0).all() and (present <= seen).all()),
            "kept",
            "must say how often each feature was present, at most `seen` times",
        )
        saved.check(
            bool((np.abs(mean) <= MEAN_MAX).all()), "kept", f"must have means of at most {MEAN_MAX:g}"
        )
        saved.check(bool((squares >= 0).all()), "kept", "must have no negative squares")


def width_of(kept: Any, size: int) -> int:
    """Of how many features there are means: those that have been present, so at most `size`."""
    shape = kept.get("shape") if isinstance(kept, dict) else list(getattr(kept, "shape", ()))
    width = shape[1] if isinstance(shape, list) and len(shape) == 2 else None
    return saved.whole(width, "kept.shape[1]", size)
