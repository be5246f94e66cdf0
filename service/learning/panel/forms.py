"""The forms of an example that the experts of a panel learn from, each made once for all of them.

An example is brought to its form by what was absorbed of the examples revealed before it, and absorbed after it was
learned. So a whole round needs each form once, for predicting and for learning.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from service.learning import saved
from service.learning.features.fourier_grid import FourierGrid, features_for
from service.learning.features.standardize import Centred, Scaled
from service.learning.panel.panels import FOURIER_FEATURES
from service.learning.vectors import Array, Vector, Vectors

Forms = dict[str, Vector]
"""An example in each form that is needed, by its name in `panels.FORMS`; the bias constant included, if there is one."""


class FormMaker:
    """Makes the forms of examples z as the model's features give them, with a bias constant if `has_bias`."""

    __slots__ = ("_fourier", "_has_bias", "_last", "_needed", "_scale")

    def __init__(self, needed: Iterable[str], *, is_dense: bool, has_bias: bool) -> None:
        self._needed = frozenset(needed)
        self._has_bias = has_bias
        self._scale: Centred | Scaled = Centred() if is_dense else Scaled()
        self._fourier: FourierGrid | None = None
        self._last: tuple[Vector, Forms] | None = None

    def forms(self, z: Vector) -> Forms:
        """All forms of an example, by what is known now."""
        if self._last is not None and self._last[0] is z:  # a whole round: predicted, and learned at once
            return self._last[1]
        made = {"plain": z}
        if self._needed != {"plain"}:
            standardized = made["standardized"] = self._standardized(z)
            if "fourier" in self._needed:
                made["fourier"] = self._of_fourier(standardized)
        self._last = z, made
        return made

    def _standardized(self, z: Vector) -> Vector:
        if not self._has_bias:
            return self._scale.apply(z)
        values = np.empty(len(z.values))
        x, bias = _apart(z)
        values[x] = self._scale.apply(_part(z, x)).values
        values[bias] = z.values[bias]
        return Vector(values, z.indices)

    def _of_fourier(self, standardized: Vector) -> Vector:
        x = standardized.values
        count = len(x) - self._has_bias
        fourier = self._fourier_of(count)
        values = np.empty(fourier.features + self._has_bias)
        values[fourier.features :] = x[count:]
        fourier.apply(x[:count], values[: fourier.features])
        return Vector(values)

    def _fourier_of(self, dimension: int) -> FourierGrid:
        if self._fourier is None:
            self._fourier = FourierGrid(FOURIER_FEATURES, dimension)
        return self._fourier

    def absorb(self, z: Vector) -> None:
        """Take in what a revealed example teaches, after it was learned."""
        self._last = None
        if self._needed != {"plain"}:
            self._scale.absorb(_part(z, _apart(z)[0]) if self._has_bias else z)

    def forms_of_rows(self, rows: Vectors) -> dict[str, Vectors]:
        """The forms of many examples, each absorbed before the next: to the same bit as one by one."""
        self._last = None
        made = {"plain": rows}
        if self._needed == {"plain"}:
            return made
        if isinstance(self._scale, Centred):
            count = rows.values.shape[1] - self._has_bias
            values = rows.values.copy()
            values[:, :count] = self._scale.apply_and_absorb(rows.values[:, :count])
        else:
            values = np.empty(rows.values.shape)
            for at in range(len(values)):
                z = rows.row(at)
                values[at] = self._standardized(z).values
                self.absorb(z)
        made["standardized"] = Vectors(values, rows.indices)
        if "fourier" in self._needed:
            made["fourier"] = Vectors(self._fourier_of_rows(values))
        return made

    def _fourier_of_rows(self, standardized: Array) -> Array:
        count = standardized.shape[1] - self._has_bias
        fourier = self._fourier_of(count)
        values = np.empty((len(standardized), fourier.features + self._has_bias))
        values[:, fourier.features :] = standardized[:, count:]
        values[:, : fourier.features] = fourier.rows(standardized[:, :count])
        return values

    def size(self, form: str, size: int) -> int:
        """How many weights an expert needs for this form of examples that have `size` entries."""
        if form != "fourier" or not size:
            return size
        return features_for(FOURIER_FEATURES, size - self._has_bias) + self._has_bias

    def name(self, form: str, index: int, size: int) -> str | None:
        """What to call the weight at `index` of that form; None if it is what the model's features call it."""
        if form != "fourier":
            return None
        is_bias = self._has_bias and index == self.size(form, size) - 1
        return "bias" if is_bias else f"fourier {index}"

    def state(self) -> dict[str, Any]:
        return self._scale.state() if self._needed != {"plain"} else {}

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, for examples of `size` entries; `saved.BadState` if none can have it."""
        self._last = None
        if self._needed == {"plain"}:
            saved.fields(state)
        else:
            dense_size = max(0, size - self._has_bias)
            self._scale.restore(state, dense_size if isinstance(self._scale, Centred) else size)


def _apart(z: Vector) -> tuple[slice, slice]:
    """Where an example and its bias constant are: the constant is last among dense entries, else first."""
    return (slice(None, -1), slice(-1, None)) if z.indices is None else (slice(1, None), slice(None, 1))


def _part(z: Vector, where: slice) -> Vector:
    return Vector(z.values[where], None if z.indices is None else z.indices[where])
