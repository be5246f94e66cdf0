"""The forms of an example that the experts of a panel learn from, each made once for all of them.

An example is brought to its form by what was absorbed of the examples revealed before it, and absorbed after it was
learned. So a whole round needs each form once, for predicting and for learning. Only the first few are absorbed before
they are learned: what is known of the scales then is worth little without them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from service.learning.features.fourier import SHARED_MAX, FourierGrid, features_for
from service.learning.features.robust import RobustCentred, Scale, new_scale, numbers_of_scale
from service.learning.features.standardize import Centred
from service.learning.learners import algorithms
from service.learning.panel.expert_features import (
    HATS,
    KNOTS,
    hats,
    product_name,
    products_kept,
    write_products,
)
from service.learning.panel.panels import FOURIER, PANELS
from service.learning.vectors import Array, Vector, Vectors

YOUNG_REVEALS = 16
"""Measured on wine, in six orders: 95.0 % right instead of 94.3 %; more of them gain nothing."""

AT_ONCE = 64
"""Rows of a form that are made at once: what is needed meanwhile shall fit into the processor's cache."""

Forms = dict[str, Vector]
"""An example in each form that is needed, named as in `panels.FORMS`; the bias constant, if any, included."""


def size_of(form: str, dimension: int) -> int:
    """How many entries this form has of examples that have `dimension`, the bias apart.

    >>> [size_of(form, 64) for form in ("standardized", "fourier", "fine fourier", "crosses", "hats")]
    [64, 512, 320, 1088, 768]
    """
    if form == "fourier":
        return features_for(FOURIER[form].features, dimension)
    if form == "fine fourier":
        return dimension + features_for(FOURIER[form].features, dimension)
    if form == "hats":
        return dimension * (1 + HATS)
    return dimension + products_kept(dimension) if form == "crosses" else dimension


class FormMaker:
    """Makes the forms of examples z as the model's features give them, with a bias constant if `has_bias`."""

    __slots__ = ("_fourier", "_has_bias", "_last", "_needed", "_scale")

    def __init__(
        self, needed: Iterable[str], *, is_dense: bool, has_bias: bool, robust: bool = False
    ) -> None:
        self._needed = tuple(dict.fromkeys(needed))
        self._has_bias = has_bias
        self._scale: Scale = new_scale(is_dense=is_dense, robust=robust)
        self._fourier: dict[str, FourierGrid] = {}
        self._last: tuple[Vector, Forms] | None = None

    def forms(self, z: Vector) -> Forms:
        """All forms of an example, by what is known now."""
        if self._last is not None and self._last[0] is z:  # a whole round: predicted, and learned at once
            return self._last[1]
        standardized = self._standardized(z)[np.newaxis]
        made = {form: Vector(self._made(form, standardized)[0], z.indices) for form in self._needed}
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

    def forms_of_rows(self, rows: Vectors) -> Iterator[tuple[str, Vectors]]:
        """The forms of many examples, each absorbed before the next: to the same bit as one by one.

        A form is made when it is its turn, so that it is in the processor's cache when experts learn from it.
        """
        self._last = None
        if isinstance(self._scale, Centred | RobustCentred):
            count = rows.values.shape[1] - self._has_bias
            standardized = rows.values.copy()
            standardized[:, :count] = self._scale.apply_and_absorb(rows.values[:, :count])
        else:
            standardized = np.empty(rows.values.shape)
            for at in range(len(standardized)):
                z = rows.row(at)
                standardized[at] = self._standardized(z)
                self.absorb(z)
        return ((form, Vectors(self._made(form, standardized), rows.indices)) for form in self._needed)

    def _standardized(self, z: Vector) -> Array:
        if not self._has_bias:
            return self._scale.apply(z).values
        values = np.empty(len(z.values))
        x, bias = _apart(z)
        values[x] = self._scale.apply(_part(z, x)).values
        values[bias] = z.values[bias]
        return values

    def _made(self, form: str, standardized: Array) -> Array:
        """A form of standardized examples, which are rows; of sparse ones there is no other."""
        if form == "standardized":
            return standardized
        dimension = standardized.shape[1] - self._has_bias
        size = size_of(form, dimension)
        made = np.empty((len(standardized), size + self._has_bias))
        if self._has_bias:
            made[:, size] = standardized[:, -1]
        for start in range(0, len(made), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            self._write(form, standardized[part, :dimension], made[part, :size])
        return made

    def _write(self, form: str, x: Array, out: Array) -> None:
        if form == "crosses":
            write_products(x, out)
        elif form == "fourier":
            out[...] = self._fourier_of(form, x)
        else:
            dimension = x.shape[1]
            out[:, :dimension] = x
            out[:, dimension:] = hats(x) if form == "hats" else self._fourier_of(form, x)

    def _fourier_of(self, form: str, x: Array) -> Array:
        if form not in self._fourier:
            features, gamma = FOURIER[form]
            seed = list(FOURIER).index(form)
            self._fourier[form] = FourierGrid(features, x.shape[1], gamma=gamma, seed=seed)
        return self._fourier[form].apply(x)

    def size(self, form: str, size: int) -> int:
        """How many weights an expert needs for this form of examples that have `size` entries."""
        return size_of(form, size - self._has_bias) + self._has_bias if size else 0

    def place(self, form: str, index: int, size: int) -> int | tuple[int, int] | str:
        """What the weight at `index` of that form stands for: a feature by its place, or two, or a word."""
        dimension = size - self._has_bias
        if form == "standardized":
            return index
        if index == size_of(form, dimension):
            return "bias"
        if form == "fourier":
            return f"fourier {index}"
        if index < dimension:
            return index
        if form == "fine fourier":
            return f"fourier {index - dimension}"
        if form == "hats":
            return f"{(index - dimension) % dimension} near {KNOTS[(index - dimension) // dimension]:g}"
        return product_name(index - dimension, dimension)

    def state(self) -> dict[str, Any]:
        return self._scale.state()

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, for examples of `size` entries; `saved.BadState` if none can have it."""
        self._last = None
        dense_size = max(0, size - self._has_bias)
        self._scale.restore(state, dense_size if isinstance(self._scale, Centred | RobustCentred) else size)


def _apart(z: Vector) -> tuple[slice, slice]:
    """Where an example and its bias constant are: the constant is last among dense entries, else first."""
    return (slice(None, -1), slice(-1, None)) if z.indices is None else (slice(1, None), slice(None, 1))


def _part(z: Vector, where: slice) -> Vector:
    return Vector(z.values[where], None if z.indices is None else z.indices[where])


def numbers_kept(panel: int, kind: str, size: int, learners: int, *, robust: bool = False) -> int:
    """Of all experts together, for `size` features, the bias apart, and so many learners under each expert.

    Means and variances are kept once. A projection of Fourier's counts in full, but for those that all models share.

    >>> [numbers_kept(1, "dense", 64, learners) for learners in (1, 2)], numbers_kept(1, "named", 100, learners=1)
    ([5760, 11392], 900)
    """
    experts = PANELS[panel].experts_for(kind)
    total = numbers_of_scale(is_dense=kind == "dense", robust=robust) * size
    for expert in experts:
        total += learners * algorithms.numbers_kept(expert.learner, size_of(expert.form, size))
    if size <= SHARED_MAX + 1:  # some who ask count the bias
        return total
    drawn = FOURIER.keys() & {expert.form for expert in experts}
    return total + sum(features_for(FOURIER[form].features, size) * size for form in drawn)
