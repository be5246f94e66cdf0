"""The perceptron's mistake bound, live: what theory says about this stream, late labels and bias included.

For the mistake-driven binary perceptron with a constant rate η, whose weights start at zero. M is the
number of updates, R the largest ‖x‖ revealed, c the constant that carries the bias. A margin γ is the
distance in x-space from a plane u·x + b = 0, ‖u‖ = 1, to the nearest example. R_z² = R² + c²; without a bias
R_z = R.

- Margin ceiling: no plane separates the reveals with a margin above ‖w‖ √k_max / (η M), k_max = 1 + R²/c².
- Mistake bound: if a plane separates them with margin γ, then M ≤ (1 + 2d) R_z² k / γ², where d is the mean,
  over the mistakes, of the updates between prediction and reveal, and k = 1 + b²/c², at most k_max.

Without a bias k = k_max = 1. k_max comes from |b| ≤ R, which needs an example on either side of the plane:
nothing is said until both classes have been revealed. docs/theory.md has the proofs.
"""

from __future__ import annotations

from math import hypot, inf, isfinite, sqrt
from typing import Any

import numpy as np

from .observed import Observed, Vector
from .vectors import dot

BOTH_CLASSES = 0b11
# A declared margin is often computed as the margin of the very examples sent, and rounded; and the norm is
# rounded too. A margin this close to the ceiling is not proved wrong by it.
TOLERANCE = 1e-9
# A sum in another order differs by less than this share.
CLEARLY = 1 - 1e-6
ROUNDOFF = 2.0**-52


def finite(number: float | None) -> float | None:
    """The number, or None where it is infinite or undefined.

    >>> finite(2.0), finite(float("inf")), finite(None)
    (2.0, None, None)
    """
    return number if number is not None and isfinite(number) else None


def norm(vector: Vector) -> float:
    """The Euclidean norm, summed in an order that is fixed: BLAS differs between processors in the last bits.

    >>> norm(np.array([3.0, 4.0]))
    5.0
    """
    return sqrt(float(np.add.reduce(vector * vector)))


class Bound:
    """What the bound needs of the reveals: a few numbers, and a window of examples if no margin is declared.

    >>> bound = Bound(bias_value=None, eta=1.0, declared_margin=0.5)
    >>> for x, y in [(1.0, 1), (-2.0, -1)]:
    ...     bound.observe(np.array([x]), y, updated=x > 0, mistake=x > 0, stale_updates=0)
    >>> report = bound.report(np.array([1.0]), None)
    >>> report["verdict"], report["margin_ceiling"], report["mistake_bound"], report["used"]
    ('within', 1.0, 16.0, 0.0625)
    """

    __slots__ = (
        "bias_value",
        "classes",
        "declared_margin",
        "eta",
        "mistakes",
        "norm_sq_max",
        "observed",
        "stale_updates_max",
        "stale_updates_sum",
        "updates",
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
        self.mistakes = 0
        self.norm_sq_max = 0.0
        self.classes = 0  # which have been revealed: bit 0 for -1, bit 1 for +1
        self.stale_updates_sum = 0
        self.stale_updates_max = 0
        # A declared margin is used whatever the weights have, so nothing need be observed.
        self.observed = Observed() if declared_margin is None else None

    def observe(
        self,
        x: Vector,
        y: int,
        *,
        updated: bool,
        mistake: bool,
        stale_updates: int,
        indices: Vector | None = None,
    ) -> None:
        """Take in one reveal: float64 features without the bias, and the label, ±1.

        `stale_updates` counts the updates between the prediction and this reveal. With `indices`, x holds
        the values at those places of the weights and is 0 elsewhere.
        """
        # Whether it may be the longest is found the faster way, and its length by a sum as everywhere else.
        if np.vdot(x, x) >= CLEARLY * self.norm_sq_max:
            self.norm_sq_max = max(self.norm_sq_max, dot(x, x))
        self.classes |= 2 if y > 0 else 1
        if updated:
            self.updates += 1
        if mistake:
            self.mistakes += 1
            self.stale_updates_sum += stale_updates
            if stale_updates > self.stale_updates_max:
                self.stale_updates_max = stale_updates
        if self.observed is not None:
            self.observed.push(x, y, indices)

    def observe_rows(
        self,
        rows: Vector,
        labels: Vector,
        *,
        updated: Vector,
        mistaken: Vector,
        indices: Vector | None = None,
    ) -> None:
        """Take in whole rounds as `observe` would, one after the other: features as rows, labels as ±1."""
        nearly = np.einsum("ij,ij->i", rows, rows)
        longest = rows[nearly >= CLEARLY * max(self.norm_sq_max, float(np.maximum.reduce(nearly)))]
        if len(longest):
            norms_sq = np.add.reduce(longest * longest, axis=1)
            self.norm_sq_max = max(self.norm_sq_max, float(np.maximum.reduce(norms_sq)))
        self.classes |= (2 if (labels > 0).any() else 0) | (1 if (labels < 0).any() else 0)
        self.updates += int(np.count_nonzero(updated))
        self.mistakes += int(np.count_nonzero(mistaken))
        if self.observed is not None:
            self.observed.push_all(rows, labels, indices)

    def report(self, weights: Vector | None, not_applicable: str | None) -> dict[str, Any]:
        """The bound as `/stats` shows it, for these weights (the bias last, if there is one).

        `not_applicable` says why the theorem does not hold for this model, if so. What is infinite or
        undefined is None.
        """
        report: dict[str, Any] = {
            "verdict": "unknown",
            "why": None,
            "R": finite(sqrt(self.norm_sq_max)) if self.classes else None,
            "weight_norm": None,
            "margin_ceiling": None,
            "gamma": self.declared_margin,
            "gamma_source": None if self.declared_margin is None else "declared",
            "stale_updates_mean": self.stale_updates_sum / self.mistakes if self.mistakes else None,
            "stale_updates_max": self.stale_updates_max if self.mistakes else None,
            "mistake_bound": None,
            "used": None,
        }
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is not None:
                report["weight_norm"] = finite(norm(weights))
            if not_applicable is not None:
                report.update(verdict="not_applicable", why=not_applicable)
            elif self.classes != BOTH_CLASSES:
                report["why"] = "both classes must have been revealed"
            elif weights is None or report["weight_norm"] is None or report["R"] is None:
                report["why"] = "the features or the weights are unknown or too large to square"
            else:
                report.update(self._judge(weights, report["weight_norm"], report["R"]))
        return report

    def _judge(self, weights: Vector, weight_norm: float, radius: float) -> dict[str, Any]:
        """What follows once both classes have been revealed."""
        c = self.bias_value or 0.0
        root_k_max = hypot(1.0, radius / c) if c else 1.0
        radius_z = hypot(radius, c)
        delays = 1.0 + 2.0 * self.stale_updates_sum / self.mistakes if self.mistakes else 1.0
        ceiling = weight_norm * root_k_max / (self.eta * self.updates) if self.updates else inf
        if self.declared_margin is not None:
            # Each of M updates rounds the weights by at most 2^-53 of their norm, which is at most
            # η R_z √((1 + 2d) M), and the step, which is at most η R_z: the ceiling may be low by that much.
            roundoff = ROUNDOFF * radius_z * root_k_max * (1.0 + sqrt(delays * self.updates))
            exceeded = self.declared_margin > ceiling * (1.0 + TOLERANCE) + roundoff
            answer = self._against(self.declared_margin, root_k_max, radius_z, delays)
            answer["verdict"] = "exceeded" if exceeded else "within"
            answer["why"] = "no plane separates the reveals with the declared margin" if exceeded else None
        else:
            answer = self._estimate(weights, radius_z, delays)
        return {**answer, "margin_ceiling": finite(ceiling)}

    def _estimate(self, weights: Vector, radius_z: float, delays: float) -> dict[str, Any]:
        """What follows from the margin that the weights have on the last reveals, and on these only."""
        if self.observed is None or not self.observed.examples:
            return {"why": "no margin is declared, and the last example is too large to observe one"}
        c = self.bias_value
        direction, bias = (weights, 0.0) if c is None else (weights[:-1], float(weights[-1]))
        length = norm(direction)
        least = self.observed.least(direction, bias * (c or 0.0))
        last = f"the last {self.observed.examples} reveals"
        if least is None or not length or not least > 0.0:
            return {"why": f"no margin is declared, and the weights do not separate {last}"}
        gamma = least / length
        answer = self._against(gamma, hypot(1.0, bias / length), radius_z, delays)
        within = answer["mistake_bound"] is None or self.updates <= answer["mistake_bound"]
        answer["verdict"] = "within" if within else "unknown"
        answer["why"] = f"the margin is observed on {last} only" + ("" if within else ", the stream has less")
        return {**answer, "gamma": gamma, "gamma_source": "observed"}

    def _against(self, gamma: float, root_k: float, radius_z: float, delays: float) -> dict[str, Any]:
        """The mistake bound for a margin, and how much of it is used."""
        root = radius_z * root_k / gamma
        bound = finite(delays * root * root)
        return {"mistake_bound": bound, "used": self.updates / bound if bound else None}

    def state(self) -> dict[str, Any]:
        """Numbers, bytes, lists: what `restore` turns back into this. Equal bounds have equal states."""
        state = {name: getattr(self, name) for name in self.__slots__}
        state["observed"] = self.observed.state() if self.observed else None
        return state

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Bound:
        """What `state` was taken from, to the bit."""
        bound = cls(state["bias_value"], state["eta"], state["declared_margin"])
        for name in cls.__slots__:
            setattr(bound, name, state[name])
        bound.observed = Observed.restore(state["observed"]) if state["observed"] else None
        return bound
