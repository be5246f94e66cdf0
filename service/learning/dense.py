"""Dense features: a list of numbers whose length the model or its first example fixes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.learning.features import BadFeatures
from service.learning.vectors import Array, Vector


class Dense:
    """Lists of numbers as they are, the bias constant appended as the last entry."""

    __slots__ = ("_bias_value", "dimension")

    def __init__(self, dimension: int | None, bias_value: float | None) -> None:
        self.dimension = dimension
        self._bias_value = bias_value

    def read(self, sent: Any) -> Array:
        if not isinstance(sent, Sequence):
            raise BadFeatures("features", "this model takes a list of numbers, not names")
        if self.dimension is not None and len(sent) != self.dimension:
            raise BadFeatures("features", f"this model takes {self.dimension} numbers, not {len(sent)}")
        return np.array(sent, dtype=np.float64)

    def encode(self, example: Array) -> bytes:
        return example.astype("<f8", copy=False).tobytes()

    def decode(self, stored: bytes) -> Array:
        return np.frombuffer(stored, dtype="<f8")

    def vector(self, example: Array) -> Vector:
        if self._bias_value is None:
            return Vector(example)
        z = np.empty(len(example) + 1)
        z[:-1] = example
        z[-1] = self._bias_value
        return Vector(z)

    def absorb(self, example: Array) -> None:
        """A list of numbers teaches nothing about its own features."""

    def size(self) -> int:
        return 0 if self.dimension is None else self.dimension + (self._bias_value is not None)

    def name(self, index: int) -> int | str:
        return "bias" if index == self.dimension else index

    def state(self) -> dict[str, Any]:
        return {"dimension": self.dimension}

    def restore(self, state: dict[str, Any]) -> None:
        self.dimension = state["dimension"]
