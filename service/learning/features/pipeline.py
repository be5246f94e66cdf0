"""Features with transforms behind them and the bias constant at the end."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.contract import BadFeatures, Features
from service.learning.features.crosses import CROSSED_MAX, DenseCrosses, HashedCrosses, NamedCrosses
from service.learning.features.transform import Transform
from service.learning.vectors import Indices, Rows, Vector, Vectors


class Pipeline:
    """A kind of features without a bias, transforms by their names in their order, then the bias constant.

    Dense vectors get the constant as their last entry. Sparse ones, which may grow, get it at index 0, which
    their kind leaves free for it.
    """

    __slots__ = ("_crosses", "bias_value", "kind", "transforms")

    def __init__(self, kind: Features, transforms: Mapping[str, Transform], bias_value: float | None) -> None:
        self.kind = kind
        self.transforms = transforms
        self.bias_value = bias_value
        crosses = transforms.get("crosses")
        assert isinstance(crosses, DenseCrosses | HashedCrosses | NamedCrosses | None)
        self._crosses = crosses

    @property
    def dimension(self) -> int | None:
        return self.kind.dimension

    @dimension.setter
    def dimension(self, dimension: int | None) -> None:
        self.kind.dimension = dimension

    @property
    def ignored_names(self) -> int:
        return self.kind.ignored_names

    @property
    def is_fixed(self) -> bool:
        return self.kind.is_fixed and "standardize" not in self.transforms

    @property
    def learns_as_served(self) -> bool:
        if self.kind.is_fixed or "standardize" in self.transforms:
            return self.is_fixed
        # Without a bias a new name changes the length of the score, not its sign.
        is_scaled = "normalize" in self.transforms and self.bias_value is not None
        return not (is_scaled or (isinstance(self._crosses, NamedCrosses) and self._crosses.is_full))

    @property
    def is_sparse(self) -> bool:
        return self.kind.dimension == 0

    def read(self, sent: Any) -> Any:
        example = self.kind.read(sent)
        if self._crosses is not None and len(example) > CROSSED_MAX:
            raise BadFeatures(
                "features", f"has {len(example)} features; with crosses at most {CROSSED_MAX} are taken"
            )
        return example

    def encode(self, example: Any) -> Any:
        return self.kind.encode(example)

    def decode(self, stored: Any) -> Any:
        return self.kind.decode(stored)

    def vector(self, example: Any) -> Vector:
        x = self.kind.vector(example)
        for transform in self.transforms.values():
            x = transform.apply(x)
        return x if self.bias_value is None else _with_bias(x, self.bias_value)

    def absorb(self, example: Any) -> Indices | None:
        self.kind.absorb(example)
        anew = None
        if self.transforms:
            x = self.kind.vector(example)
            for transform in self.transforms.values():
                anew = transform.absorb(x) if anew is None else anew
                x = transform.apply(x)
        if anew is None or self._crosses is not None or "fourier" in self.transforms:
            return None  # where an entry is made of several features
        bias = [] if self.bias_value is None else [0 if self.is_sparse else self.size() - 1]
        return np.append(anew, bias).astype(np.intp)

    def read_rows(self, sent: Sequence[Any] | Rows) -> list[Rows] | None:
        tables = self.kind.read_rows(sent)
        if self._crosses is None or tables is None:
            return tables
        return None if any(rows.values.shape[1] > CROSSED_MAX for rows in tables) else tables

    def rows_of(self, examples: Sequence[Any]) -> list[Rows]:
        return self.kind.rows_of(examples)

    def examples_in(self, rows: Rows) -> Iterable[Any]:
        return self.kind.examples_in(rows)

    def vectors(self, rows: Rows) -> Vectors | None:
        # A transform takes one vector at a time; dense features without any have no pipeline.
        x = None if self.transforms else self.kind.vectors(rows)
        return x if x is None or self.bias_value is None else _with_bias_first(x, self.bias_value)

    def size(self) -> int:
        size = self.kind.size()
        if not (self.is_sparse or size):
            return 0  # while nothing has fixed the dimension
        for transform in self.transforms.values():
            size = transform.size(size)
        return size + (self.bias_value is not None and not self.is_sparse)

    def name(self, index: int) -> int | str:
        if self.bias_value is not None and index == (0 if self.is_sparse else self.size() - 1):
            return "bias"
        if self._crosses is not None:
            return self._crosses.name(index, self.kind.size(), self.kind.name)
        return f"fourier {index}" if "fourier" in self.transforms else self.kind.name(index)

    def names_in(self, example: Any) -> dict[int, str]:
        names = self.kind.names_in(example)
        return names if self._crosses is None else self._crosses.names_in(self.kind.vector(example), names)

    def state(self) -> dict[str, Any]:
        kept = {name: transform.state() for name, transform in self.transforms.items()}
        return {"kind": self.kind.state(), "transforms": kept}

    def restore(self, state: Any) -> None:
        kind, transforms = saved.fields(state, "kind", "transforms")
        saved.within("kind", self.kind.restore, kind)
        size = self.kind.size()
        kept = saved.within("transforms", saved.fields, transforms, *self.transforms)
        for (name, transform), its_state in zip(self.transforms.items(), kept, strict=True):
            saved.within(f"transforms.{name}", transform.restore, its_state, size)
            size = transform.size(size)


def _with_bias(x: Vector, bias_value: float) -> Vector:
    count = len(x.values)
    values = np.empty(count + 1)
    if x.indices is None:
        values[:count] = x.values
        values[count] = bias_value
        return Vector(values)
    values[0] = bias_value
    values[1:] = x.values
    indices = np.zeros(count + 1, dtype=np.intp)
    indices[1:] = x.indices
    return Vector(values, indices)


def _with_bias_first(x: Vectors, bias_value: float) -> Vectors:
    assert x.indices is not None
    count, size = x.values.shape
    values = np.empty((count, size + 1))
    values[:, 0] = bias_value
    values[:, 1:] = x.values
    return Vectors(values, np.concatenate(([0], x.indices)))
