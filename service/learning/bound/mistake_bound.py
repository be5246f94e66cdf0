"""The perceptron's mistake bound, live: what theory says about this stream, late labels and bias included.

For the mistake-driven binary perceptron with a constant rate η, whose weights start at zero. M is the
number of updates, R the largest ‖x‖ revealed, c the constant that carries the bias. A margin γ is the
distance in x-space from a plane u·x + b = 0, ‖u‖ = 1, to the nearest example. R_z² = R² + c²; without a bias
R_z = R.

- Margin ceiling: no plane separates the reveals with a margin above ‖w‖ √k_max / (η M), k_max = 1 + R²/c². That
  holds at every moment of the stream, so the least of all these is the ceiling.
- Mistake bound: if a plane separates them with margin γ, then M ≤ (1 + 2d) R_z² k / γ², where d is the mean,
  over the updates, of the updates between prediction and reveal, and k = 1 + b²/c², at most k_max.

Reveals may have weights h. Then H, the sum of h over the updates, takes the place of M, and (W/H) that of 1 + 2d, where
W is the sum of h² + 2 h S, and S the weight of the updates between prediction and reveal.

Without a bias k = k_max = 1. k_max comes from |b| ≤ R, which needs an example on either side of the plane:
nothing is said until both classes have been revealed. docs/theory.md has the proofs.

The ceiling is computed for one moment, as numbers, and for many at once, as arrays: made of sums, products,
quotients and square roots only, it gives the same bits for both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, sqrt
from sys import float_info
from typing import Any, Self

import numpy as np

from service.learning import saved
from service.learning.bound.observed_margin import AnyArray, Observed
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


BOTH_CLASSES = 0b11
# Sums of the same squares in another order differ by less than what is missing here.
NEARLY_ALL = 1 - 1e-6
# Set for ever beside the classes once an update has left the range of numbers.
OUT_OF_RANGE = 0b100


class Bound:
    """What the bound needs of the reveals: a few numbers, and a window of examples if no margin is declared.

    >>> bound = Bound(bias_value=None, eta=1.0, declared_margin=0.5)
    >>> for x, y in [(1.0, 1), (-2.0, -1)]:
    ...     bound.observe(np.array([x]), y, updated=x > 0, score=0.0, stale_updates=0)
    >>> bound.updates, round(bound.ceiling, 6)
    (1, 1.0)
    """

    __slots__ = (
        "bias_value",
        "ceiling",
        "classes",
        "declared_margin",
        "eta",
        "growth",
        "norm_sq_max",
        "observed",
        "stale_updates_max",
        "stale_updates_sum",
        "sum_norm_sq",
        "updates",
        "weight",
        "weight_max",
    )

    def __init__(self, bias_value: float | None, eta: float, declared_margin: float | None) -> None:
        """`bias_value` is None for a model without a bias; `eta` is the constant learning rate."""
        for name, value in (("bias_value", bias_value), ("eta", eta), ("declared_margin", declared_margin)):
            if value is not None and not (isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be a positive number, not {value}")
        self.bias_value = bias_value
        self.eta = eta
        self.declared_margin = declared_margin
        self.updates = 0
        self.norm_sq_max = 0.0
        self.classes = 0  # which have been revealed: bit 0 for -1, bit 1 for +1; and `OUT_OF_RANGE`
        self.stale_updates_sum = 0
        self.stale_updates_max = 0
        self.sum_norm_sq = 0.0  # ‖Σ h y z‖² over the updates, which is ‖w‖²/η²
        self.weight = 0.0  # H
        self.growth = 0.0  # W
        self.weight_max = 1.0  # the largest h of an update, at least 1
        self.ceiling: float | None = None  # the least so far
        # A declared margin is used whatever the weights have, so nothing need be observed.
        self.observed = Observed() if declared_margin is None else None

    def observe(
        self,
        x: AnyArray,
        y: int,
        updated: bool,
        score: float,
        stale_updates: int,
        stale_weight: float | None = None,
        weight: float = 1.0,
        indices: AnyArray | None = None,
    ) -> None:
        """Take in one reveal: float64 features without the bias, and the label, ±1.

        `score` is w·z with the weights just before an update; `stale_updates` counts the updates between the
        prediction and this reveal, `stale_weight` is what they weigh together: 1 each, if it is None. With `indices`, x
        holds the values at those places of the weights and is 0 elsewhere.
        """
        # Whether it may be the longest is found the faster way, and its length by a sum as everywhere else.
        if np.vdot(x, x) >= NEARLY_ALL * self.norm_sq_max:
            self.norm_sq_max = max(self.norm_sq_max, dot(x, x))
        classes_before = self.classes
        self.classes = classes_before | (2 if y > 0 else 1)
        if updated:
            self.updates += 1
            self.stale_updates_sum += stale_updates
            self.stale_updates_max = max(self.stale_updates_max, stale_updates)
            stale_weight = float(stale_updates) if stale_weight is None else stale_weight
            self.growth += weight * weight + 2.0 * weight * stale_weight
            self.weight += weight
            self.weight_max = max(self.weight_max, weight)
            self.sum_norm_sq += self._growth(y * score, self._with_bias(dot(x, x)), weight)
        # A new ceiling comes with an update, and with the reveal by which both classes are known.
        if (updated or self.classes != classes_before) and self.knows_both and self.weight:
            self._lower(self._ceiling_now())
        if self.observed is not None:
            self.observed.push(x, y, indices)

    def observe_rows(
        self,
        rows: AnyArray,
        labels: AnyArray,
        *,
        updated: AnyArray,
        scores: AnyArray,
        indices: AnyArray | None = None,
    ) -> None:
        """Take in whole rounds as `observe` would, one after the other: features as rows, labels as ±1."""
        norms_sq = self._norms_sq(rows, updated)
        norms_sq_max = np.maximum.accumulate(np.maximum(norms_sq, self.norm_sq_max))
        self.norm_sq_max = float(norms_sq_max[-1])
        places = np.flatnonzero(updated)
        with np.errstate(all="ignore"):
            grown = self._growth((labels * scores)[places], self._with_bias(norms_sq[places]))
            sums = np.empty((3, len(places) + 1))
            sums[:, 0] = self.sum_norm_sq, self.weight, self.growth
            sums[0, 1:] = grown
            sums[1:, 1:] = 1.0
            np.add.accumulate(sums, axis=1, out=sums)
            self._lower_within(labels, places, sums, norms_sq_max)
        self.sum_norm_sq, self.weight, self.growth = sums[:, -1].tolist()
        self.updates += len(places)
        self.classes |= (2 if (labels > 0).any() else 0) | (1 if (labels < 0).any() else 0)
        if self.observed is not None:
            self.observed.push_all(rows, labels, indices)

    def _norms_sq(self, rows: AnyArray, updated: AnyArray) -> AnyArray:
        """‖x‖² of the rows that were updates or may be the longest, as `observe` finds them; less of the others."""
        norms_sq: AnyArray = np.vecdot(rows, rows)
        exact = np.flatnonzero(updated | (norms_sq >= NEARLY_ALL * self.norm_sq_max))
        chosen = rows[exact]
        norms_sq[exact] = np.add.reduce(chosen * chosen, axis=1)
        return norms_sq

    def _with_bias(self, norm_sq: Any) -> Any:
        """‖z‖² of ‖x‖², one or many."""
        return norm_sq if self.bias_value is None else norm_sq + self.bias_value * self.bias_value

    def _growth(self, margin: Any, norm_sq: Any, weight: float = 1.0) -> Any:
        """By how much an update, or each of many, makes ‖Σ h y z‖² grow: y w·z just before it, ‖z‖² and h."""
        in_range = (norm_sq >= SMALLEST) & (norm_sq <= LARGEST) & (self.eta * norm_sq >= SMALLEST)
        weighted = weight * weight * norm_sq
        if weight != 1.0:
            in_range &= SMALLEST <= weighted <= LARGEST and self.eta * weighted >= SMALLEST
        if not (in_range if isinstance(in_range, bool) else in_range.all()):  # `np.all` of one takes 3 µs
            self.classes |= OUT_OF_RANGE
        return weight * (2.0 * margin / self.eta) + weighted

    def _ceiling_now(self) -> float:
        ceiling: float = margin_ceiling(
            max(self.sum_norm_sq, 0.0),
            self.updates,
            self.weight,
            self.growth,
            self.norm_sq_max,
            bias_value=self.bias_value,
            weight_max=self.weight_max,
        )
        return ceiling

    def _lower_within(
        self, labels: AnyArray, places: AnyArray, sums: AnyArray, norms_sq_max: AnyArray
    ) -> None:
        """Lower the ceiling to the least within rows, which are not yet counted.

        There is another one after each update (at `places`; `sums` are ‖Σ h y z‖², H and W before the first and after
        each of them), and a first one with the row by which both classes have been revealed.
        """
        moments = places
        if not self.knows_both:
            appear = [
                int(of_class.argmax()) if of_class.any() else len(labels)
                for bit, of_class in ((1, labels < 0), (2, labels > 0))
                if not self.classes & bit
            ]
            moments = np.union1d(places[places >= max(appear)], [max(appear)])
            moments = moments[moments < len(labels)]
        done = np.searchsorted(places, moments, side="right")
        begun = self.updates + done > 0
        moments, done = moments[begun], done[begun]
        if len(moments):
            ceilings = margin_ceiling(
                np.maximum(sums[0, done], 0.0),
                self.updates + done,
                sums[1, done],
                sums[2, done],
                norms_sq_max[moments],
                bias_value=self.bias_value,
                weight_max=self.weight_max,
                root=np.sqrt,
            )
            self._lower(float(np.minimum.reduce(ceilings)))

    def _lower(self, ceiling: float) -> None:
        if isfinite(ceiling) and (self.ceiling is None or ceiling < self.ceiling):
            self.ceiling = ceiling

    @property
    def knows_both(self) -> bool:
        """Whether both classes have been revealed."""
        return self.classes & BOTH_CLASSES == BOTH_CLASSES

    @property
    def radius_z_sq(self) -> float:
        """R_z², the largest ‖z‖² revealed."""
        return float(self._with_bias(self.norm_sq_max))

    @property
    def is_weighted(self) -> bool:
        """Whether an update has weighed something else than 1."""
        return self.weight_max > 1.0 or self.weight != self.updates

    @property
    def is_in_range(self) -> bool:
        """Whether all numbers of the proofs can be computed with: see "Rounding" in bench/NOTES.md."""
        if self.classes & OUT_OF_RANGE or not SMALLEST <= self.radius_z_sq <= LARGEST:
            return False
        # h² ‖z‖² of every update is at least SMALLEST.
        weight_min = sqrt(SMALLEST) / sqrt(self.radius_z_sq) if self.is_weighted else 1.0
        return self.eta * weight_min >= float_info.min

    def state(self) -> dict[str, Any]:
        """Numbers, bytes, lists: what `restore` turns back into this. Equal bounds have equal states."""
        state = {name: getattr(self, name) for name in Bound.__slots__}
        state["observed"] = None if self.observed is None else self.observed.state()
        return state

    @classmethod
    def restore(cls, state: dict[str, Any], weights: AnyArray) -> Self:
        """What `state` was taken from, to the bit; `weights` are the model's, for a state of version 0.1.0.

        That version kept no ceiling: then it begins with that of the weights.
        """
        bound = cls(state["bias_value"], state["eta"], state["declared_margin"])
        for name in Bound.__slots__:
            setattr(bound, name, state.get(name, getattr(bound, name)))
        if "weight" not in state:  # a version that knew of no weights
            bound.weight = float(bound.updates)
            bound.growth = bound.updates + 2.0 * bound.stale_updates_sum
        for name in ("updates", "stale_updates_sum", "stale_updates_max"):
            saved.whole(getattr(bound, name), name)
        saved.whole(bound.classes, "classes", BOTH_CLASSES | OUT_OF_RANGE)
        for name in ("norm_sq_max", "sum_norm_sq", "weight", "growth", "weight_max"):
            saved.check(type(getattr(bound, name)) is float, name, "must be a number")
        observed = state["observed"]
        bound.observed = saved.within("observed", Observed.restore, observed) if observed else None
        if "sum_norm_sq" not in state and bound.updates:
            bound.sum_norm_sq = (norm(weights) / bound.eta) ** 2
            if bound.knows_both:
                bound._lower(bound._ceiling_now())
        return bound
