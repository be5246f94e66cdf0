"""Dense features: a list of numbers whose length the model or its first example fixes."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.contract import BadFeatures
from service.learning.features.rows import packer, rows_of_lists
from service.learning.vectors import LARGEST, Array, Rows, Vector, Vectors, all_within

DIMENSION_MAX = 65_536

NUMBER = np.dtype("<f8")
"""Of stored features. Made once: numpy takes as long to read the name of a type as to make a small array."""


class Dense:
    """Lists of numbers as they are, the bias constant appended as the last entry."""

    __slots__ = ("bias_value", "dimension", "dimension_max")

    ignored_names = 0
    is_fixed = True
    learns_as_served = True

    def __init__(
        self, dimension: int | None, bias_value: float | None, dimension_max: int = DIMENSION_MAX
    ) -> None:
        self.dimension = dimension
        self.bias_value = bias_value
        self.dimension_max = dimension_max

    def read(self, sent: Any) -> Array:
        if type(sent) is not list and (not isinstance(sent, Sequence) or isinstance(sent, str | bytes)):
            raise BadFeatures("features", "this model expects a list of numbers, not names")
        count = len(sent)
        if self.dimension is not None and count != self.dimension:
            raise BadFeatures("features", f"this model expects {self.dimension} numbers, not {count}")
        if not 0 < count <= self.dimension_max:
            raise BadFeatures(
                "features", f"this model expects 1 to {self.dimension_max} numbers, not {count}"
            )
        try:
            example = np.frombuffer(packer(count)(*sent), NUMBER)  # half the time of np.array
        except (struct.error, OverflowError):
            return _numbers(sent)
        return example if all_within(example, LARGEST) else _numbers(sent)

    def encode(self, example: Array) -> bytes:
        return example.astype(NUMBER, copy=False).tobytes()

    def decode(self, stored: bytes) -> Array:
        return np.frombuffer(stored, NUMBER)

    def vector(self, example: Array) -> Vector:
        if self.bias_value is None:
            return Vector(example)
        z = np.empty(len(example) + 1)
        z[:-1] = example
        z[-1] = self.bias_value
        return Vector(z)

    def absorb(self, example: Array) -> None:
        """A list of numbers teaches nothing about its own features."""

    def read_rows(self, sent: Sequence[Any] | Rows) -> list[Rows] | None:
        if isinstance(sent, Rows):
            return [sent] if sent.names is None and sent.values.shape[1] == self.dimension else None
        rows = None if self.dimension is None else rows_of_lists(sent, self.dimension)
        return None if rows is None else [rows]

    def rows_of(self, examples: Sequence[Array]) -> list[Rows]:
        return [Rows(np.stack(examples))]

    def examples_in(self, rows: Rows) -> Array:
        return rows.values

    def vectors(self, rows: Rows) -> Vectors | None:
        if self.bias_value is None:
            return Vectors(rows.values)
        count, size = rows.values.shape
        z = np.empty((count, size + 1))
        z[:, :-1] = rows.values
        z[:, -1] = self.bias_value
        return Vectors(z)

    def size(self) -> int:
        return 0 if self.dimension is None else self.dimension + (self.bias_value is not None)

    def name(self, index: int) -> int | str:
        return "bias" if index == self.dimension else index

    def names_in(self, example: Array) -> dict[int, str]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"dimension": self.dimension}

    def restore(self, state: Any) -> None:
        (dimension,) = saved.fields(state, "dimension")
        if dimension is not None or self.dimension is not None:
            most, least = (self.dimension_max, 1) if self.dimension is None else (self.dimension,) * 2
            saved.whole(dimension, "dimension", most, least)
        self.dimension = dimension


def _numbers(sent: Sequence[Any]) -> Array:
    """The numbers one by one; says which one is wrong."""
    for i, value in enumerate(sent):
        if not isinstance(value, int | float):
            raise BadFeatures(f"features[{i}]", "must be a number")
        if not abs(value) <= LARGEST:
            raise BadFeatures(f"features[{i}]", f"must be a number of at most {LARGEST:g} in magnitude")
    return np.array([float(value) for value in sent])
