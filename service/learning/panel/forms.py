"""The forms of an example that the experts of a panel learn from, each made once for all of them.

An example is brought to its form by what was absorbed of the examples revealed before it, and absorbed after it was
learned. So a whole round needs each form once, for predicting and for learning. Only the first few are absorbed before
they are learned: what is known of the scales then is worth little without them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from service.learning.features.fourier_grid import FourierGrid, features_for
from service.learning.features.hats import HATS, KNOTS, hats
from service.learning.features.standardize import Centred, Scaled
from service.learning.panel.crosses import product_name, products_kept, write_products
from service.learning.panel.panels import FOURIER_FEATURES, FOURIER_GAMMAS
from service.learning.vectors import Array, Vector, Vectors

YOUNG_REVEALS = 16
"""Measured on wine, in six orders: 95.0 % right instead of 94.3 %; more of them gain nothing."""

Forms = dict[str, Vector]
"""An example in each form that is needed, by its name in `panels.FORMS`; the bias constant, if any, included."""


def size_of(form: str, dimension: int) -> int:
    """How many entries this form has of examples that have `dimension`, the bias apart.

    >>> {form: size_of(form, 64) for form in ("standardized", "fourier", "crosses", "hats")}
    {'standardized': 64, 'fourier': 512, 'crosses': 1088, 'hats': 768}
    """
    if form in FOURIER_GAMMAS:
        return features_for(FOURIER_FEATURES, dimension)
    if form == "hats":
        return dimension * (1 + HATS)
    return dimension + products_kept(dimension) if form == "crosses" else dimension


class FormMaker:
    """Makes the forms of examples z as the model's features give them, with a bias constant if `has_bias`."""

    __slots__ = ("_fourier", "_gammas", "_has_bias", "_last", "_needed", "_scale")

    def __init__(self, needed: Iterable[str], *, is_dense: bool, has_bias: bool) -> None:
        self._needed = frozenset(needed)
        self._has_bias = has_bias
        self._scale: Centred | Scaled = Centred() if is_dense else Scaled()
        self._gammas = {form: gamma for form, gamma in FOURIER_GAMMAS.items() if form in self._needed}
        self._fourier: FourierGrid | None = None
        self._last: tuple[Vector, Forms] | None = None

    def forms(self, z: Vector) -> Forms:
        """All forms of an example, by what is known now."""
        if self._last is not None and self._last[0] is z:  # a whole round: predicted, and learned at once
            return self._last[1]
        made = {name: Vector(values, z.indices) for name, values in self._made(self._standardized(z)).items()}
        self._last = z, made
        return made

    def absorb(self, z: Vector) -> None:
        """Take in what a revealed example teaches, after it was learned."""
        self._last = None
        self._scale.absorb(_part(z, _apart(z)[0]) if self._has_bias else z)

    @property
    def is_young(self) -> bool:
        """Whether an example shall be absorbed before it is learned."""
        return self._scale.seen < YOUNG_REVEALS

    def forms_of_rows(self, rows: Vectors) -> dict[str, Vectors]:
        """The forms of many examples, each absorbed before the next: to the same bit as one by one."""
        self._last = None
        if isinstance(self._scale, Centred):
            count = rows.values.shape[1] - self._has_bias
            standardized = rows.values.copy()
            standardized[:, :count] = self._scale.apply_and_absorb(rows.values[:, :count])
        else:
            standardized = np.empty(rows.values.shape)
            for at in range(len(standardized)):
                z = rows.row(at)
                standardized[at] = self._standardized(z)
                self.absorb(z)
        return {name: Vectors(values, rows.indices) for name, values in self._made(standardized).items()}

    def _standardized(self, z: Vector) -> Array:
        if not self._has_bias:
            return self._scale.apply(z).values
        values = np.empty(len(z.values))
        x, bias = _apart(z)
        values[x] = self._scale.apply(_part(z, x)).values
        values[bias] = z.values[bias]
        return values

    def _made(self, standardized: Array) -> dict[str, Array]:
        """The forms of a standardized example, or of many as rows; of sparse ones there are no others."""
        made = {"standardized": standardized}
        dimension = standardized.shape[-1] - self._has_bias
        x = standardized[..., :dimension]
        if self._gammas:
            if self._fourier is None:
                self._fourier = FourierGrid(FOURIER_FEATURES, dimension, tuple(self._gammas.values()))
            features, count = self._fourier.apply(x), self._fourier.features
            for at, form in enumerate(self._gammas):
                made[form], out = self._room(form, standardized)
                out[...] = features[..., at * count : (at + 1) * count]
        if "crosses" in self._needed:
            made["crosses"], out = self._room("crosses", standardized)
            write_products(x, out)
        if "hats" in self._needed:
            made["hats"], out = self._room("hats", standardized)
            out[..., :dimension] = x
            out[..., dimension:] = hats(x)
        return made

    def _room(self, form: str, standardized: Array) -> tuple[Array, Array]:
        """Room for a form, with the bias constant in its place, and the part of it that is to be filled."""
        size = size_of(form, standardized.shape[-1] - self._has_bias)
        room = np.empty((*standardized.shape[:-1], size + self._has_bias))
        if self._has_bias:
            room[..., size] = standardized[..., -1]
        return room, room[..., :size]

    def size(self, form: str, size: int) -> int:
        """How many weights an expert needs for this form of examples that have `size` entries."""
        return size_of(form, size - self._has_bias) + self._has_bias if size else 0

    def place(self, form: str, index: int, size: int) -> int | tuple[int, int] | str:
        """What the weight at `index` of that form stands for: a feature by its place, or two, or a word."""
        dimension = size - self._has_bias
        if form in FOURIER_GAMMAS:
            return "bias" if index == size_of(form, dimension) else f"fourier {index}"
        if form == "standardized" or index < dimension:
            return index
        if index == size_of(form, dimension):
            return "bias"
        if form == "hats":
            return f"{(index - dimension) % dimension} near {KNOTS[(index - dimension) // dimension]:g}"
        return product_name(index - dimension, dimension)

    def state(self) -> dict[str, Any]:
        return self._scale.state()

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, for examples of `size` entries; `saved.BadState` if none can have it."""
        self._last = None
        dense_size = max(0, size - self._has_bias)
        self._scale.restore(state, dense_size if isinstance(self._scale, Centred) else size)


def _apart(z: Vector) -> tuple[slice, slice]:
    """Where an example and its bias constant are: the constant is last among dense entries, else first."""
    return (slice(None, -1), slice(-1, None)) if z.indices is None else (slice(1, None), slice(None, 1))


def _part(z: Vector, where: slice) -> Vector:
    return Vector(z.values[where], None if z.indices is None else z.indices[where])
