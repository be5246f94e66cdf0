"""A model's settings, checked and completed: those that a client asks for, and those that an export claims."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from service.engine.models.labels import Labels, is_label, same, text_of
from service.engine.models.sizes import capacity, numbers_kept
from service.errors import InvalidRequest
from service.events import Label
from service.learning import saved
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.parameters import LEAST, BadParameter, Choice, Flag, Number, Parameter

Checked = TypeVar("Checked")

BIAS = Flag(True, "whether a constant is appended to every example")
BIAS_VALUE = Number(1.0, 0.0, 1e6, "that constant", low_open=True)
PROTOCOL = Choice("delayed", ("delayed", "strict"), "strict: no second prediction before the reveal")
DECLARED_MARGIN = Number(
    None,
    0.0,
    1e100,
    "the declared margin of the stream, after hashing, `crosses`, `normalize` and `fourier`",
    low_open=True,
)
CONFIDENCE = Number(0.95, 0.5, 0.9999, "the probability with which the intervals on /stats hold")
COVERAGE = Number(None, 0.01, 0.99, "the share of `set`s that shall contain the true label; null: no sets")
PENDING_TTL_SECONDS = Number(
    None,
    1.0,
    31_536_000.0,
    "how long a prediction stays pending; null: the service's `pending_ttl_seconds`",
)
ASK_B = Number(
    1.0, 0.0, 1e100, "the lead of the best label at which half of the labels are asked for", low_open=True
)
CLASS_WEIGHT = Number(1.0, LEAST, 1e6, "how often a reveal of this label counts")

IGNORE = "ignore"
"""As `on_expiry`: predictions whose labels do not come are not learned."""

DERIVED = ("classes_max", "size_max", "weights_max")
"""Settings that follow from the limits of the service that made the model."""

RULES = 3
"""The newest set of rules by which the fold computes. A model has the number that it was made with in its settings, as
`rules`; a reset takes the newest. Models without the setting have 1.

To change what the fold computes and leave models that exist as they are: compare `settings["rules"]` with the number of
the set that brings the change (`>= 2`) where the part is made (`ModelState.begin`) or where it observes, and keep both
ways. Raise the number once per release. Export, import, fork, rollback, rebuild, what-if and `?at=` carry it with the
settings. Events that apply newer rules to a model that exists have their own number (`ModelReset.rules`,
`PromotionRuled.rules`), which is 1 in stored events of before.
"""


class ModelLimits(msgspec.Struct, frozen=True):
    """The settings of the service that say how large a model may become."""

    names_max: int
    classes_max: int
    covariance_dimension_max: int
    weights_max: int


def complete(given: Mapping[str, Any], limits: ModelLimits) -> dict[str, Any]:
    """What the journal keeps: everything, explicitly, so that other defaults never change a replay.

    `given` has every setting that a client can write. InvalidRequest names one that does not fit.
    """
    own = complete_own(given, given["bias"], given["labels"], limits)
    labels = given["labels"]
    settings = {
        "learner": own["learner"],
        "labels": labels,
        "tie": own["tie"],
        "bias": given["bias"],
        "bias_value": given["bias_value"],
        "multiclass": own["multiclass"],
        "classes_max": own["classes_max"],
        "features": own["features"],
        "size_max": own["size_max"],
        "weights_max": limits.weights_max,
        "protocol": given["protocol"],
        "declared_margin": given["declared_margin"],
        "confidence": given["confidence"],
        "coverage": given["coverage"],
        "ask": _ask(given["ask"]),
        "class_weights": _class_weights(given["class_weights"], labels, limits),
        "on_expiry": _on_expiry(given["on_expiry"], labels),
        "pending_ttl_seconds": given["pending_ttl_seconds"],
        "rules": given.get("rules", RULES),
    }
    if numbers_kept(settings, capacity(own["features"]), _count(labels)) > limits.weights_max:
        raise InvalidRequest.at(
            "features", f"with this learner and these labels it could exceed {limits.weights_max} weights"
        )
    return settings


def _count(labels: list[Label] | None) -> int:
    return 1 if labels is None else len(labels)


def complete_own(
    given: Mapping[str, Any], bias: bool, labels: list[Label] | None, limits: ModelLimits, prefix: str = ""
) -> dict[str, Any]:
    """The settings of one learner of a model, `OWN`; `prefix` stands before the names of fields in errors."""
    learner = checked(f"{prefix}learner.", lambda: algorithms.complete(given["learner"]))
    size_max = limits.covariance_dimension_max if algorithms.needs_matrix(learner) else None
    count = _check_labels(labels, limits)
    multiclass = checked(prefix, lambda: strategies.complete(given["multiclass"], count, learner))
    features = checked(
        prefix,
        lambda: feature_kinds.complete(
            given["features"],
            bias=bias,
            names_max=min(limits.names_max, limits.weights_max),
            size_max=size_max,
        ),
    )
    if learner["algorithm"] == algorithms.AUTO:
        _check_plain(features, prefix)
    classes_max = strategies.STRATEGIES[multiclass].classes_max if multiclass else 2
    return {
        "learner": learner,
        "features": features,
        "multiclass": multiclass,
        "tie": _tie(given["tie"], labels, multiclass),
        "classes_max": min(classes_max, limits.classes_max),
        "size_max": size_max,
    }


def _check_plain(features: dict[str, Any], prefix: str) -> None:
    """InvalidRequest for a transform: each expert of a panel brings its own."""
    for name in ("normalize", "standardize", "crosses", "fourier"):
        if features.get(name):
            raise InvalidRequest.at(
                f"{prefix}features.{name}", "is not for `auto`, whose experts bring their own"
            )


def check_completed(settings: Any, limits: ModelLimits) -> None:
    """`saved.BadState` or InvalidRequest unless this service would have made a model with these settings.

    Its own limits may be lower than the service's, but not higher.
    """
    names = (
        "learner", "labels", "tie", "bias", "bias_value", "multiclass", *DERIVED, "features", "protocol",
        "declared_margin", "confidence", "coverage", "ask", "class_weights", "on_expiry",
        "pending_ttl_seconds", "rules",
    )  # fmt: skip
    kept = dict(zip(names, saved.fields(settings, *names), strict=True))
    _check_simple(kept)
    for name in ("learner", "features"):
        saved.check(type(kept[name]) is dict, name, "must be an object")
    if kept["labels"] is not None:
        Labels.restore(kept["labels"], None)
    for name in ("classes_max", "weights_max"):
        saved.whole(kept[name], name, getattr(limits, name), 1)
    saved.whole(kept["rules"], "rules", RULES, 1)
    if algorithms.needs_matrix(kept["learner"]):
        saved.whole(kept["size_max"], "size_max", limits.covariance_dimension_max, 1)
    completed = complete(kept, limits)
    for name in kept:
        is_same = name in DERIVED and (name != "size_max" or completed[name] is not None)
        saved.check(
            is_same or is_equal(kept[name], completed[name]),
            name,
            "is not in the form that the service saves",
        )
    saved.check(
        kept["classes_max"] <= completed["classes_max"], "classes_max", "is more than this strategy takes"
    )


def _check_simple(kept: dict[str, Any]) -> None:
    """The settings that are a number or a word of their own."""
    simple: dict[str, Parameter] = {
        "bias": BIAS,
        "bias_value": BIAS_VALUE,
        "protocol": PROTOCOL,
        "confidence": CONFIDENCE,
        "declared_margin": DECLARED_MARGIN,
        "coverage": COVERAGE,
        "pending_ttl_seconds": PENDING_TTL_SECONDS,
    }
    for name, parameter in simple.items():
        value = checked("", partial(parameter.check, name, kept[name]))
        saved.check(type(value) is type(kept[name]), name, "must be a number with a decimal point")


def _ask(ask: Any) -> dict[str, float | None] | None:
    """What is kept of `ask`: null, "auto" or {"b": a number}; as kept, "auto" is {"b": null}."""
    if ask is None:
        return None
    if (
        isinstance(ask, str) and ask == "auto"
    ):  # in a doctored export it may be an array, which has no single truth
        return {"b": None}
    if not isinstance(ask, dict) or ask.keys() != {"b"}:
        raise InvalidRequest.at("ask", 'must be null, "auto" or {"b": a number}')
    return {"b": None if ask["b"] is None else checked("ask.", partial(ASK_B.check, "b", ask["b"]))}


def _class_weights(weights: Any, labels: list[Label] | None, limits: ModelLimits) -> dict[str, float] | None:
    if weights is None:
        return None
    if not isinstance(weights, dict) or len(weights) > limits.classes_max:
        raise InvalidRequest.at("class_weights", f"must be an object of at most {limits.classes_max} labels")
    texts = None if labels is None else [text_of(label) for label in labels]
    for label in weights:
        if texts is not None and texts.count(label) != 1:
            why = "stands for two of the labels" if label in texts else "is not one of the labels"
            raise InvalidRequest.at(f"class_weights.{label}", why)
    return {
        label: checked("class_weights.", partial(CLASS_WEIGHT.check, label, weight))
        for label, weight in weights.items()
    }


def _on_expiry(given: Any, labels: list[Label] | None) -> Label | None:
    """The label that predictions are learned with when none came; None if they are not."""
    if labels is not None and any(same(given, label) for label in labels):
        return cast(Label, given)
    if given is None or (isinstance(given, str) and given == IGNORE):
        return None
    if labels is not None or not is_label(given):
        raise InvalidRequest.at("on_expiry", f'must be "{IGNORE}", null or one of the labels')
    return cast(Label, given)


def is_equal(one: Any, other: Any) -> bool:
    """Whether two settings are the same to the bit: 1, 1.0 and True are not.

    >>> is_equal({"a": [1]}, {"a": [1]}), is_equal({"a": [1]}, {"a": [True]})
    (True, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


def _check_labels(labels: list[Label] | None, limits: ModelLimits) -> int | None:
    if labels is None:
        return None
    if not 2 <= len(labels) <= limits.classes_max:
        raise InvalidRequest.at("labels", f"must be 2 to {limits.classes_max} labels, or null")
    if len({(type(label), label) for label in labels}) < len(labels):
        raise InvalidRequest.at("labels", "must differ from each other")
    return len(labels)


def _tie(tie: Label | None, labels: list[Label] | None, multiclass: str | None) -> Label | None:
    if multiclass is not None or labels is None:
        if tie is not None:
            raise InvalidRequest.at("tie", "is for two labels; with more, the first seen wins")
        return None
    if tie is None:
        return labels[1]
    for label in labels:
        if same(tie, label):
            return tie
    raise InvalidRequest.at("tie", "must be one of the labels")


def checked(prefix: str, check: Callable[[], Checked]) -> Checked:
    """What `check` gives, its complaint turned into ours."""
    try:
        return check()
    except BadParameter as error:
        raise InvalidRequest.at(prefix + error.field, error.message) from None
