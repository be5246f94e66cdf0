"""The bound of a perceptron that forgets, against comparators that move.

The k-th update is v ← β_k v + y z with β_k = (k - 1)/(k - 1 + λ), and w = η v. Every sequence of planes that has each
mistake on its right side with the margin γ has moved, in all, by at least

    S ≥ (M - U (‖v_M‖ + Σ_k (1 - β_k) ‖v_{k-1}‖)) / max_k ‖v_k‖,  U = √k_max / γ,

whatever the delay. And if such planes moved by no more than S, M ≤ c²/2 + c √(2λ + c²/4) with
c = R_z √(1 + 2D) (U √(2λ + 1) + S/√(2λ + 1)), D being the most updates between a prediction and its reveal.

Proof. Write u_k for the plane of the k-th update as a vector with y u_k·z ≥ 1 and ‖u_k‖ ≤ U. Then

    u_k·v_k = β_k u_k·v_{k-1} + y u_k·z ≥ u_{k-1}·v_{k-1} + (u_k - u_{k-1})·v_{k-1} - (1 - β_k) u_k·v_{k-1} + 1.

Summed up, with u_M·v_M ≤ U ‖v_M‖, that is M ≤ U (‖v_M‖ + Σ_k (1 - β_k) ‖v_{k-1}‖) + S max_k ‖v_k‖: the first claim.
The served score was wrong, and each of at most D updates since has moved it by at most R_z², so that y v_{k-1}·z ≤ D
R_z² and ‖v_k‖² ≤ β_k² ‖v_{k-1}‖² + (1 + 2D) R_z². By induction ‖v_k‖² ≤ (1 + 2D) R_z² (k + 2λ)/(2λ + 1), since n (n +
2λ) ≤ (n + λ)² for n = k - 1. And Σ_{0<n<M} √(n + 2λ)/(n + λ) ≤ 2 √(M + 2λ): the terms fall, so that the sum is at
most the integral from 0 to M, which with t = √(n + 2λ) is 2t + √λ ln((t - √λ)/(t + √λ)) between the ends, and what
the second term adds, at most 1.77 √λ, is less than the 2 √(2λ) that the first loses at 0. So ‖v_M‖ + Σ_k (1 - β_k)
‖v_{k-1}‖ is at most R_z √(1 + 2D) √(2λ + 1) √(M + 2λ), and M ≤ c √(M + 2λ). Solved for M this is the second claim.
"""

from __future__ import annotations

from math import hypot, sqrt
from typing import Any, Self

from service.learning import saved
from service.learning.bound.mistake_bound import Bound
from service.learning.bound.observed_margin import AnyArray
from service.learning.vectors import dot

ROUNDED = 1.0 + 1e-6
"""Lengths are taken to be so much larger than computed."""


class ShiftingBound(Bound):
    """What is needed of the reveals, with v as it is: no ceiling holds, and no margin is observed."""

    __slots__ = ("forget", "length_sq", "longest", "lost", "rounds")

    def __init__(
        self, bias_value: float | None, eta: float, declared_margin: float | None, forget: float = 0.0
    ) -> None:
        super().__init__(bias_value, eta, declared_margin)
        self.observed = None
        self.forget = forget
        self.length_sq = 0.0  # ‖v‖²
        self.longest = 0.0  # max ‖v_k‖
        self.lost = 0.0  # Σ (1 - β_k) ‖v_{k-1}‖
        self.rounds = 0

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
        self.rounds += 1
        if updated:
            kept = self.updates / (self.updates + self.forget)
            length = sqrt(self.length_sq)
            self.lost += (1.0 - kept) * length
            grown = self._growth(kept * y * score, self._with_bias(dot(x, x)), weight)
            self.length_sq = max(0.0, kept * kept * self.length_sq + grown)
            self.longest = max(self.longest, sqrt(self.length_sq))
        super().observe(x, y, updated, score, stale_updates, stale_weight, weight, indices)

    def observe_rows(
        self,
        rows: AnyArray,
        labels: AnyArray,
        *,
        updated: AnyArray,
        scores: AnyArray,
        indices: AnyArray | None = None,
    ) -> None:
        each = zip(rows, labels.tolist(), updated.tolist(), scores.tolist(), strict=True)
        for x, y, changed, score in each:
            self.observe(x, y, changed, score, 0)

    def judged(self) -> dict[str, Any]:
        """What follows for planes with the declared margin, once both classes are known."""
        gamma, c = self.declared_margin, self.bias_value
        if gamma is None:
            return {"why": "no margin is declared"}
        if self.is_weighted:
            return {"verdict": "not_applicable", "why": "the theorem is about reveals that weigh 1"}
        largest = (hypot(1.0, sqrt(self.norm_sq_max) / c) if c else 1.0) / gamma
        lengths = ROUNDED * (sqrt(self.length_sq) + self.lost)
        moved = max(0.0, self.updates - largest * lengths) / (ROUNDED * self.longest) if self.updates else 0.0
        spread = sqrt(2.0 * self.forget + 1.0)
        radius = sqrt((1.0 + 2.0 * self.stale_updates_max) * self.radius_z_sq)
        each = radius * (largest * spread + moved / spread)
        most = each * each / 2.0 + each * sqrt(2.0 * self.forget + each * each / 4.0)
        most = min(most, float(self.rounds))
        return {
            "verdict": "within",
            "why": "planes that moved by `moved_at_least` may have the declared margin" if moved else None,
            "moved_at_least": moved,
            "mistake_bound": most,
            "used": self.updates / most if most else None,
        }

    def state(self) -> dict[str, Any]:
        return super().state() | {name: getattr(self, name) for name in ShiftingBound.__slots__}

    @classmethod
    def restore(cls, state: dict[str, Any], weights: AnyArray) -> Self:
        bound = super().restore(state, weights)
        for name in ShiftingBound.__slots__:
            value = state[name]
            saved.check(type(value) is (int if name == "rounds" else float), name, "must be a number")
            setattr(bound, name, value)
        return bound
