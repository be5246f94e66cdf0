"""The rows of linear learners: they start at zero, grow, give scores, and are kept and restored."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from service.learning import saved
from service.learning.saved import packed
from service.learning.vectors import ALL, Array, Indices, Numbers, RowIndex, Vector, room_for

MOVE_MAX = 1e150
"""A step that would move a weight farther than this is not taken, so that weights stay finite."""


class Plane(NamedTuple):
    """A number that is kept for each weight: its name in saved states, its value at first, and its range."""

    name: str
    fill: float = 0.0
    least: float = -saved.WEIGHT_MAX
    most: float = saved.WEIGHT_MAX


class Linear:
    """What the learners share; each adds when it changes a row, and how."""

    __slots__ = ("_kept", "_room", "planes", "updates")

    learns_in_blocks: bool = True

    def __init__(self, *kept: Plane) -> None:
        """`kept` are the planes beside the weights."""
        self._kept = kept
        self.updates: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._room: Array = np.zeros((1 + len(kept), 0, 0))
        self.planes: Array = self._room

    @property
    def weights(self) -> Array:
        return self.planes[0]  # type: ignore[no-any-return]

    def scores(self, z: Vector, rows: RowIndex = ALL) -> Numbers:
        return z.dot(self.planes[0, rows]) if isinstance(rows, int) else z.dots(self.planes[0], rows)

    def may_change(self, scores: Numbers, labels: Numbers) -> Any:
        raise NotImplementedError

    def change(
        self, planes: Array, z: Vector, rows: RowIndex, scores: Numbers, labels: Numbers, weight: float = 1.0
    ) -> bool:
        raise NotImplementedError

    def learn(
        self,
        z: Vector,
        labels: Numbers,
        rows: RowIndex = ALL,
        served: int | None = None,
        weight: float = 1.0,
    ) -> bool:
        scores = z.dots(self.planes[0], rows)
        taught = self.may_change(scores, labels)
        if isinstance(rows, int):
            return taught and self.change(self.planes, z, rows, scores, labels, weight)
        places = taught.nonzero()[0]
        if not len(places):
            return False
        return self.change(self.planes, z, *some(places, rows, scores, labels), weight)

    def add(self, count: int) -> None:
        _, rows, size = self.planes.shape
        self.updates = np.concatenate((self.updates, np.zeros(count, dtype=np.int64)))
        self._resize(rows + count, size)

    def grow(self, size: int) -> None:
        if size != self.planes.shape[2]:
            self._resize(self.planes.shape[1], size)

    def _resize(self, rows: int, size: int) -> None:
        _, had_rows, had_size = self.planes.shape
        self._room = room_for(self._room, len(self._room), rows, size)
        self.planes = self._room[:, :rows, :size]
        for plane, kept in zip(self.planes[1:], self._kept, strict=True):
            if kept.fill:
                plane[had_rows:] = kept.fill
                plane[:had_rows, had_size:] = kept.fill

    def unsettle(self, places: Indices) -> None:
        pass

    def clear(self, count: int, size: int) -> None:
        self.updates = np.zeros(count, dtype=np.int64)
        self._room = self.planes = np.zeros((len(self._room), 0, 0))
        self._resize(count, size)

    def start_from(self, weights: Array) -> None:
        updates = self.updates
        self.clear(*weights.shape)
        self.updates = updates
        self.planes[0] = weights

    def state(self, row: int) -> dict[str, Any]:
        weights, *others = self.planes[:, row]
        return {
            "weights": packed(weights),
            "updates": int(self.updates[row]),
            **{kept.name: packed(plane, kept.fill) for plane, kept in zip(others, self._kept, strict=True)},
        }

    def restore(self, row: int, state: Any) -> None:
        self._restore(row, *saved.fields(state, "weights", "updates", *(kept.name for kept in self._kept)))

    def _restore(self, row: int, weights: Any, updates: Any, *others: Any) -> None:
        shape = self.planes.shape[2:]
        self.planes[0, row] = saved.array(weights, "weights", shape)
        self.updates[row] = saved.whole(updates, "updates")
        for plane, values, kept in zip(self.planes[1:], others, self._kept, strict=True):
            plane[row] = saved.array(
                values, kept.name, shape, fill=kept.fill, least=kept.least, most=kept.most
            )


def each(function: Callable[[float], float], numbers: Numbers) -> Numbers:
    """A function of numbers, made of each number."""
    if isinstance(numbers, float):
        return function(numbers)
    return np.array([function(number) for number in numbers.tolist()])


def some(
    places: Indices, rows: Indices | slice, scores: Array, labels: Array
) -> tuple[RowIndex, Numbers, Numbers]:
    """What is at some places of rows, of their scores and of their labels; one row by its number.

    >>> some(np.array([1]), ALL, np.array([0.5, 0.25]), np.array([1.0, -1.0]))
    (1, 0.25, -1.0)
    """
    if len(places) == 1:
        at = int(places[0])
        return at if isinstance(rows, slice) else int(rows[at]), float(scores[at]), float(labels[at])
    if len(places) == len(labels):
        return rows, scores, labels
    return places if isinstance(rows, slice) else rows[places], scores[places], labels[places]
