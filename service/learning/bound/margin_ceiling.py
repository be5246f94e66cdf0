"""The largest margin that a plane can have, as the updates of a perceptron tell; docs/theory.md has the proof.

The same formula is taken for one moment, as numbers, and for many at once, as arrays: made of sums, products,
quotients and square roots only, it gives the same bits for both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from service.learning.bound.observed_margin import AnyArray
from service.learning.vectors import dot

# Squares outside of these have lost digits, or will.
SMALLEST, LARGEST = 1e-280, 1e280
BLOCK = 65_536
"""So many squares at a time need no memory that has to be got from the system."""
# Four times the rounding of one operation.
ROUNDOFF = 2.0**-51


def norm(vector: AnyArray) -> float:
    """The Euclidean norm, summed in an order that is fixed: BLAS differs between processors in the last bits.

    >>> norm(np.array([3.0, 4.0])), norm(np.array([3e-200, 4e-200]))
    (5.0, 5e-200)
    """
    squared = sum(
        [dot(part, part) for part in (vector[at : at + BLOCK] for at in range(0, len(vector), BLOCK))]
    )
    if SMALLEST <= squared <= LARGEST or not vector.any():
        return sqrt(squared)
    largest = float(np.maximum.reduce(np.abs(vector)))
    return largest * sqrt(dot(vector / largest, vector / largest))


def margin_ceiling(
    sum_norm_sq: Any,
    updates: Any,
    weight: Any,
    growth: Any,
    norm_sq_max: Any,
    *,
    bias_value: float | None,
    weight_max: float = 1.0,
    root: Callable[[Any], Any] = sqrt,
) -> Any:
    """‖Σ h y z‖ √k_max / H, and what rounding may have taken from it, for the M updates, H, W and R² of each moment.

    >>> round(margin_ceiling(9.0, 3, 3.0, 3.0, 4.0, bias_value=None), 6)
    1.0
    >>> round(margin_ceiling(9.0, 3, 3.0, 3.0, 3.0, bias_value=1.0), 6)
    2.0
    """
    k_max, radius_z_sq = 1.0, norm_sq_max
    if bias_value is not None:
        k_max = 1.0 + norm_sq_max / bias_value / bias_value
        radius_z_sq = norm_sq_max + bias_value * bias_value
    spread = weight_max + root(growth)
    rounding = ROUNDOFF * radius_z_sq * (weight * (updates + 20.0)) * spread
    return root(k_max) * root(sum_norm_sq + rounding) / weight
