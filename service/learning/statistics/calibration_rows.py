"""The arithmetic of probabilities over a block of rounds, to the same bit as that of `calibration.py` one by one."""

from __future__ import annotations

import numpy as np

from service.learning.certainty.logistic import logistic, logistic_of_all
from service.learning.statistics.statistic import Flags
from service.learning.vectors import Array

STEEPNESS = 2.0
SLOPE_GRID, GRADIENT_GRID = 1.5 * 2.0**32, 1.5 * 2.0**31
"""Added and taken off again, they round to multiples of 2^-20 and 2^-21. The sums over a batch of at most 1,024 such
numbers (slopes up to 2, gradients up to 1) and of their products need no more than 52 bits: they are exact, and so the
same in any order."""

GRIDS = np.array([[SLOPE_GRID], [GRADIENT_GRID]])


FEW = 16
"""So many rounds are faster without arrays."""

Sums = tuple[float, float, float, float, float]


def leads_of(gaps: Array, usual: float) -> Array:
    """How far ahead the best is by each of these gaps: as `Calibration.standing` says it of one."""
    if usual <= 0.0:
        return (gaps > 0.0).astype(np.float64)
    ahead = np.maximum(gaps, 0.0)
    return np.divide(ahead, ahead + usual, out=ahead)


def served_and_sums(
    gaps: Array, right: Flags, usual: float, slope: float, offset: float
) -> tuple[Array, Sums]:
    """The probabilities of some rounds of a batch, and what `gradient_sums` tells of them."""
    if len(gaps) <= FEW:
        return _of_few(gaps.tolist(), right.tolist(), usual, slope, offset)
    u = leads_of(gaps, usual)
    u *= STEEPNESS
    x = u * slope
    x += offset
    probabilities = logistic_of_all(x)
    return probabilities, gradient_sums(u, probabilities, right)


def _of_few(
    gaps: list[float], right: list[bool], usual: float, slope: float, offset: float
) -> tuple[Array, Sums]:
    probabilities = []
    g_slope = g_offset = h_slope = h_both = h_offset = 0.0
    for gap, is_right in zip(gaps, right, strict=True):
        u = STEEPNESS * (gap / (gap + usual)) if gap > 0.0 else 0.0
        probability = logistic(slope * u + offset)
        probabilities.append(probability)
        of_offset = probability - is_right
        of_slope = (of_offset * u + SLOPE_GRID) - SLOPE_GRID
        of_offset = (of_offset + GRADIENT_GRID) - GRADIENT_GRID
        g_slope += of_slope
        g_offset += of_offset
        h_slope += of_slope * of_slope
        h_both += of_slope * of_offset
        h_offset += of_offset * of_offset
    return np.array(probabilities), (g_slope, g_offset, h_slope, h_both, h_offset)


def gradient_sums(u: Array, probabilities: Array, right: Flags) -> Sums:
    """The sums over a batch of slopes, gradients, squares of slopes, products of both, and squares of gradients."""
    steps = np.empty((2, len(u)))
    slopes, gradients = steps
    np.subtract(probabilities, right, out=gradients)
    np.multiply(gradients, u, out=slopes)
    steps += GRIDS
    steps -= GRIDS
    (h_slope, h_both), (_, h_offset) = np.dot(steps, steps.T).tolist()
    g_slope, g_offset = np.add.reduce(steps, axis=1).tolist()
    return g_slope, g_offset, h_slope, h_both, h_offset


def sum_after(start: float, numbers: Array) -> float:
    """The sum of numbers one after the other, from `start` on. It takes the place of the numbers.

    >>> sum_after(1.0, np.array([2.0, 3.0]))
    6.0
    """
    numbers[0] += start
    return float(np.add.accumulate(numbers, out=numbers)[-1])


def group_products(so_far: float, first: int, size: int, numbers: Array) -> list[float]:
    """The products of groups of `size` numbers, each one after the other; of the last group it may be those so far.

    The first group has `first` numbers before these, whose product is `so_far`.

    >>> group_products(3.0, 1, 2, np.array([2.0, 5.0, 7.0, 4.0]))
    [6.0, 35.0, 4.0]
    """
    end = first + len(numbers)
    factors = np.ones(-(-end // size) * size)
    factors[first:end] = numbers
    factors[0] *= so_far  # 1 if a group begins here; else a 1 stands there
    return np.multiply.accumulate(factors.reshape(-1, size), axis=1)[:, -1].tolist()  # type: ignore[no-any-return]
