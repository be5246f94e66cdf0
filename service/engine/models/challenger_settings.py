"""The settings of challengers, checked and completed: those that a client asks for, and those that an export claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novikoff.schemas import NAME_RULE
from service.engine.models.champion_and_challengers import FIRST_CHAMPION, NO_CHALLENGERS
from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits, checked, complete, complete_own, is_equal
from service.engine.models.settings import check_completed as check_without_challengers
from service.engine.models.sizes import CHALLENGERS_MAX, OWN, numbers_to_come, why_not
from service.engine.names import is_name
from service.errors import ChallengerExists, InvalidRequest
from service.learning import saved
from service.learning.learners import algorithms
from service.learning.parameters import Integer, Number, Parameter, check_fields

PROMOTE: dict[str, Parameter] = {
    "confidence": Number(0.95, 0.5, 0.9999, "the confidence needed that a challenger is better"),
    "rounds_min": Integer(500, 1, 10**9, "the least number of rounds that both were compared on"),
}


def complete_all(given: Mapping[str, Any], limits: ModelLimits) -> dict[str, Any]:
    """The settings of a model with its challengers; of one without any they are as if there could be none.

    `given` may have `challengers`, `promote` and `champion` beside the settings of a model.
    """
    settings = complete(given, limits)
    if "champion" not in given and not given.get("challengers") and given.get("promote") is None:
        return settings
    settings |= NO_CHALLENGERS | {"champion": given.get("champion", FIRST_CHAMPION)}
    settings["promote"] = complete_promote(given["promote"])
    challengers = given["challengers"]
    if not isinstance(challengers, Mapping) or len(challengers) > CHALLENGERS_MAX:
        raise InvalidRequest.at("challengers", f"must be an object of at most {CHALLENGERS_MAX}")
    settings["challengers"] = {
        name: complete_one(name, own, settings, limits, f"challengers.{name}.")
        for name, own in challengers.items()
    }
    classes = len(settings["labels"] or ()) or 1
    if numbers_to_come(settings, None, classes) > limits.weights_max:
        raise InvalidRequest.at("challengers", f"with them it could exceed {limits.weights_max} weights")
    return settings


def complete_promote(given: Any) -> dict[str, Any] | None:
    """When challengers are promoted by themselves; None: never."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidRequest.at("promote", "must be null or an object")
    return checked("", lambda: check_fields(given, PROMOTE, "promote", "promote."))


def complete_one(
    name: str, given: Any, model: Mapping[str, Any], limits: ModelLimits, prefix: str = ""
) -> dict[str, Any]:
    """The settings of a challenger of a model with those settings. What is not given is as the champion has it."""
    if not is_name(name):
        raise InvalidRequest.at(f"{prefix}name", f"must be {NAME_RULE}")
    if name == model["champion"]:
        raise InvalidRequest.at(f"{prefix}name", "is the name of the champion")
    if not isinstance(given, Mapping):
        raise InvalidRequest.at(prefix.rstrip("."), "must be an object")
    own = {
        each: given[each]
        for each in ("learner", "features", "multiclass", "tie")
        if given.get(each) is not None
    }
    learner = own.setdefault("learner", model["learner"])
    if not isinstance(learner, Mapping):
        raise InvalidRequest.at(f"{prefix}learner", "must be an object")
    if "multiclass" not in own:
        is_perceptron = learner.get("algorithm", "perceptron") == "perceptron"
        is_for_all = model["multiclass"] != "multiclass" or is_perceptron
        own["multiclass"] = model["multiclass"] if is_for_all and "multiclass" not in given else None
    own["features"] = _features(own.get("features"), model["features"], prefix)
    strategy = own["multiclass"] or (None if len(model["labels"] or ()) == 2 else "one_vs_all")
    own["tie"] = own.get("tie", model["tie"]) if strategy is None else None
    return complete_own(own, model["bias"], model["labels"], limits, prefix)


def _features(given: Any, of_champion: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Features that can be made of the examples that the champion takes."""
    if given is None:
        return dict(of_champion)
    features = {"kind": given} if isinstance(given, str) else given
    if not isinstance(features, Mapping):
        raise InvalidRequest.at(f"{prefix}features", "must be an object")
    features = {"kind": of_champion["kind"], **features}
    is_dense = of_champion["kind"] == "dense"
    if is_dense != (features["kind"] == "dense"):
        takes = "lists of numbers" if is_dense else "names with values"
        raise InvalidRequest.at(f"{prefix}features.kind", f"does not take {takes}, which the model is sent")
    for each in ("dimension",) if is_dense else ("text",):
        said, known = features.get(each), of_champion[each]
        if (
            said is not None
            and (sorted(set(said)) if isinstance(said, list) and _are_texts(said) else said) != known
        ):
            raise InvalidRequest.at(f"{prefix}features.{each}", "must equal that of the model")
        features[each] = known
    if features["kind"] == of_champion["kind"] == "named":
        features.setdefault("names_max", of_champion["names_max"])
    return features


def _are_texts(said: list[Any]) -> bool:
    return all(isinstance(each, str) for each in said)


def complete_new(name: str, given: Any, model: Model, limits: ModelLimits) -> dict[str, Any]:
    """The settings of a challenger that is to join a model as it is now."""
    settings = {**NO_CHALLENGERS, **model.settings}
    if name in settings["challengers"]:
        raise ChallengerExists(
            f"the challenger {name!r} already exists; remove it first, or choose another name"
        )
    own = complete_one(name, given, settings, limits)
    why = why_not(settings, name, own, dimension=model.features.dimension, classes=len(model.labels.values))
    if why is not None:
        raise InvalidRequest.at(*why)
    return own


def check_completed(settings: Any, limits: ModelLimits) -> None:
    """`saved.BadState` or InvalidRequest unless this service would have made a model with these settings."""
    if type(settings) is not dict or "challengers" not in settings:
        check_without_challengers(settings, limits)
        return
    shared = {name: value for name, value in settings.items() if name not in NO_CHALLENGERS}
    check_without_challengers(shared, limits)
    for name in NO_CHALLENGERS:
        saved.check(name in settings, name, "is missing")
    champion, challengers = settings["champion"], settings["challengers"]
    saved.check(is_name(champion), "champion", f"must be {NAME_RULE}")
    saved.check(type(challengers) is dict, "challengers", "must be an object")
    for name, own in challengers.items():
        saved.within(f"challengers.{name}", _check_own, own, limits)
    completed = complete_all(settings, limits)
    saved.check(
        is_equal(settings["promote"], completed["promote"]),
        "promote",
        "is not in the form that the service saves",
    )
    for name, own in challengers.items():
        for each in ("learner", "features", "multiclass", "tie"):
            is_same = is_equal(own[each], completed["challengers"][name][each])
            saved.check(is_same, f"challengers.{name}.{each}", "is not in the form that the service saves")
        most = completed["challengers"][name]["classes_max"]
        saved.check(own["classes_max"] <= most, f"challengers.{name}.classes_max", f"must be at most {most}")


def check_plain(value: Any, field: str) -> None:
    """BadState for an array or bytes among settings, by its place: they are compared, which arrays do not stand.

    >>> check_plain({"challengers": {"a": {"tie": b"x"}}}, "settings")
    Traceback (most recent call last):
        ...
    service.learning.saved.BadState: settings.challengers.a.tie: must be plain JSON
    """
    if isinstance(value, dict):
        for name, part in value.items():
            check_plain(part, f"{field}.{name}")
    elif isinstance(value, list):
        for at, part in enumerate(value):
            check_plain(part, f"{field}[{at}]")
    else:
        saved.check(value is None or isinstance(value, str | int | float), field, "must be plain JSON")


def _check_own(own: Any, limits: ModelLimits) -> None:
    learner, *_, classes_max, size_max = saved.fields(own, *OWN)
    saved.check(type(learner) is dict, "learner", "must be an object")
    saved.whole(classes_max, "classes_max", limits.classes_max, 1)
    if algorithms.needs_matrix(learner):
        saved.whole(size_max, "size_max", limits.covariance_dimension_max, 1)
    else:
        saved.check(size_max is None, "size_max", "must be null")
