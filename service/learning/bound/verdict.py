"""What the mistake bound says of a model: whether the theorem applies to it, and how much of the bound is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, isfinite, sqrt
from typing import Any

import numpy as np

from service.learning.bound.mistake_bound import Bound, norm
from service.learning.bound.observed_margin import AnyArray
from service.learning.bound.shifting import ShiftingBound
from service.learning.certainty.asking import Asking
from service.learning.learners.algorithms import AUTO

# A declared margin is often computed as the margin of the very examples sent, and rounded. A margin this close to
# the ceiling is not proved wrong by it.
TOLERANCE = 1e-9
WHY_OUT_OF_RANGE = "the examples, or the steps that they make, are too small or too large to compute with"
WHY_LEARNED_OTHERWISE = (
    "a new name changes the vector between prediction and reveal: by `normalize` with a bias, or by `crosses` past the"
    " pairs that have a weight of their own"
)

WHY_B_CHANGES = "the theorem is about a `b` that is given; with `auto` it changes with the stream"


def why_not_applicable(settings: Mapping[str, Any], origin: str | None) -> str | None:
    """Why the theorem says nothing about a model with these settings; None if it does.

    `origin` tells where its weights came from, if they did not start at zero.
    """
    learner = settings["learner"]
    if origin == "promoted":
        return "the theorem is about one learner from its start; since then a challenger was promoted"
    if origin is not None:
        return f"the theorem is about weights that start at zero; these were {origin}"
    if learner["algorithm"] == AUTO:
        return "the theorem is about one perceptron; that of a panel is under `experts`"
    if learner["algorithm"] != "perceptron" or learner["rule"] != "mistake":
        return "the theorem is about the perceptron with rule `mistake`"
    if learner["schedule"] != "constant":
        return "the theorem is about a constant learning rate"
    if settings["multiclass"] is not None:
        return "the theorem is about two classes"
    if settings["features"]["standardize"]:
        return "standardize moves the examples between prediction and reveal"
    return None


def report(
    bound: Bound,
    weights: AnyArray | None,
    not_applicable: str | None,
    *,
    bias_is_first: bool = False,
    transforms: Sequence[str] = (),
) -> dict[str, Any]:
    """The bound as `/stats` shows it, for these weights (the bias last, if there is one, unless it is first).

    `not_applicable` says why the theorem does not hold for this model, if so. `transforms` says what is done to
    examples before they are learned: a margin is one of the examples after that. What is infinite or undefined is None.

    >>> bound = Bound(bias_value=None, eta=1.0, declared_margin=0.5)
    >>> for x, y in [(1.0, 1), (-2.0, -1)]:
    ...     bound.observe(np.array([x]), y, updated=x > 0, score=0.0, stale_updates=0)
    >>> figures = report(bound, np.array([1.0]), None)
    >>> figures["verdict"], figures["mistake_bound"], figures["used"]
    ('within', 16.0, 0.0625)
    """
    figures: dict[str, Any] = {
        "verdict": "unknown",
        "why": None,
        "R": finite(sqrt(bound.norm_sq_max)) if bound.classes else None,
        "weight_norm": None,
        "margin_ceiling": None,
        "gamma": bound.declared_margin,
        "gamma_source": None if bound.declared_margin is None else "declared",
        "stale_updates_mean": bound.stale_updates_sum / bound.updates if bound.updates else None,
        "stale_updates_max": bound.stale_updates_max if bound.updates else None,
        "update_weight": bound.weight,
        "mistake_bound": None,
        "used": None,
        "moved_at_least": None,
    }
    with np.errstate(all="ignore"):
        direction, bias, length = _apart(bound, weights, bias_is_first)
        if weights is not None:
            figures["weight_norm"] = finite(hypot(length, bias))
        if not_applicable is not None:
            figures.update(verdict="not_applicable", why=not_applicable)
        elif not bound.knows_both:
            figures["why"] = "both classes must have been revealed"
        elif weights is None or not bound.is_in_range:
            figures.update(verdict="not_applicable", why=WHY_OUT_OF_RANGE)
        elif isinstance(bound, ShiftingBound):
            figures.update(bound.judged())
        else:
            judged = (
                _judge_observed(bound, direction, bias, length)
                if bound.declared_margin is None
                else _judge_declared(bound)
            )
            figures.update(judged, margin_ceiling=bound.ceiling)
            if transforms:
                reasons = (
                    figures["why"],
                    f"the margin is that of the examples after {' and '.join(transforms)}",
                )
                figures["why"] = "; ".join(filter(None, reasons))
    return figures


def expected_mistakes(asking: Asking, bound: Bound | None, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The bound on expected mistakes of a model that asks for labels; `figures` are those of its mistake bound."""
    report: dict[str, Any] = {"verdict": figures["verdict"], "why": figures["why"]}
    report |= {"expected_mistakes": None, "since_round": 0}  # of all rounds
    if bound is None or figures["verdict"] == "not_applicable":
        return report
    if bound.is_weighted:
        return report | {"verdict": "not_applicable", "why": "the theorem is about reveals that weigh 1"}
    if isinstance(bound, ShiftingBound):
        return report | {
            "verdict": "not_applicable",
            "why": "the theorem is about weights that forget nothing",
        }
    if asking.b_given is None:
        return report | {"verdict": "not_applicable", "why": WHY_B_CHANGES}
    if bound.declared_margin is None:
        return report | {"verdict": "unknown", "why": "no margin is declared"}
    if figures["mistake_bound"] is not None:
        c = bound.bias_value
        root_k_max = hypot(1.0, sqrt(bound.norm_sq_max) / c) if c else 1.0
        growth = (1 + 2 * bound.stale_updates_max) * bound.radius_z_sq
        report["expected_mistakes"] = finite(
            asking.expected_mistakes(growth, root_k_max, bound.declared_margin)
        )
    return report


def finite(number: float | None) -> float | None:
    """The number, or None where it is infinite or undefined.

    >>> finite(2.0), finite(float("inf")), finite(None)
    (2.0, None, None)
    """
    return number if number is not None and isfinite(number) else None


def _judge_declared(bound: Bound) -> dict[str, Any]:
    """What follows from the margin that was declared for the stream."""
    gamma, c = bound.declared_margin, bound.bias_value
    assert gamma is not None
    exceeded = _is_above_ceiling(bound, gamma)
    root_k_max = hypot(1.0, sqrt(bound.norm_sq_max) / c) if c else 1.0
    return {
        **_mistake_bound(bound, gamma, root_k_max),
        "verdict": "exceeded" if exceeded else "within",
        "why": "no plane separates the reveals with the declared margin" if exceeded else None,
    }


def _judge_observed(bound: Bound, direction: AnyArray, bias: float, length: float) -> dict[str, Any]:
    """What follows from the margin that the weights have on the last reveals, and on these only.

    `direction` are those of the features, and `length` is their norm.
    """
    if bound.observed is None or not bound.observed.examples:
        return {"why": "no margin is declared, and the last example is too large to observe one"}
    least = bound.observed.least(direction, bias * (bound.bias_value or 0.0))
    last = f"the last {bound.observed.examples} reveals"
    if least is None or not length or not least > 0.0:
        return {"why": f"no margin is declared, and the weights do not separate {last}"}
    gamma = least / length
    figures = _mistake_bound(bound, gamma, hypot(1.0, bias / length))
    most = figures["mistake_bound"]
    within = (most is None or bound.weight <= most) and not _is_above_ceiling(bound, gamma)
    return {
        **figures,
        "verdict": "within" if within else "unknown",
        "why": f"the margin is observed on {last} only" + ("" if within else ", the stream has less"),
        "gamma": gamma,
        "gamma_source": "observed",
    }


def _apart(bound: Bound, weights: AnyArray | None, bias_is_first: bool) -> tuple[AnyArray, float, float]:
    """The weights of the features, that of the bias, and the norm of the former."""
    direction, bias = np.empty(0) if weights is None else weights, 0.0
    if bound.bias_value is not None and len(direction):
        at = 0 if bias_is_first else -1
        bias = float(direction[at])
        direction = direction[1:] if bias_is_first else direction[:-1]
    return direction, bias, norm(direction)


def _is_above_ceiling(bound: Bound, gamma: float) -> bool:
    return bound.ceiling is not None and gamma > bound.ceiling * (1.0 + TOLERANCE)


def _mistake_bound(bound: Bound, gamma: float, root_k: float) -> dict[str, Any]:
    """The mistake bound for a margin, and how much of it is used."""
    delays = 1.0 + (bound.growth - bound.weight) / bound.weight if bound.updates else 1.0
    root = sqrt(bound.radius_z_sq) * root_k / gamma
    most = finite(delays * root * root)
    return {"mistake_bound": most, "used": bound.weight / most if most else None}
