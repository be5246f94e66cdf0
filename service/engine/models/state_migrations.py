"""Migrations of a model's state: the steps from each version of its format to the next.

A snapshot, an import and a fit carry the version of their state (`service/journal/codec.py`). A state that an older
program has written is migrated right after it is decoded.
"""

from collections.abc import Callable
from typing import Any

from service.journal.codec import STATE_VERSION, StateBytes, decode_state
from service.learning import saved
from service.learning.certainty.duel import with_curve_begun
from service.learning.statistics import Statistics
from service.learning.statistics.curve import with_unknown_times

State = dict[str, Any]

ADDED_SETTINGS: dict[str, Any] = {"confidence": 0.95, "coverage": None, "ask": None, "class_weights": None,
                                  "on_expiry": None, "pending_ttl_seconds": None, "rules": 1}  # fmt: skip
"""Settings that models made by older versions do not have, and what they mean by that."""


def _from_1(state: State) -> State:
    """0.1.0 did not say which version began the statistics. What else it lacks gets its default on restore."""
    return {**state, "stepped_from": 1}


def _from_2(state: State) -> State:
    """Up to version 2 no model served sets or asked for labels."""
    if "statistics" not in state:
        return state
    new = {"sets": None, "asking": None, "stepped_from": _stepped_from(state, 2)}
    return {**state, **new, "settings": ADDED_SETTINGS | _object(state, "settings")}


def _from_3(state: State) -> State:
    """Up to version 3 no model had challengers, or learned anything from predictions that expired. The points of its
    curve had no times."""
    if "settings" in state:
        state = {**state, "settings": ADDED_SETTINGS | _object(state, "settings")}
    counted = _object(state, "statistics") if "statistics" in state else {}
    if "curve" in counted:
        state = {**state, "statistics": {**counted, "curve": with_unknown_times(counted["curve"])}}
    return state


def _from_4(state: State) -> State:
    """Up to version 4 the learners of a model with challengers had no curves. What is no such model's state stays as it
    is: restoring it fails with its place."""
    contest = state.get("contest")
    if type(contest) is not dict or type(contest.get("challengers")) is not dict:
        return state
    challengers = {name: _with_curve(kept) for name, kept in contest["challengers"].items()}
    contest = {**_with_curve(contest), "challengers": challengers}
    return {**state, "contest": contest, "stepped_from": _stepped_from(state, 4)}


def _from_5(state: State) -> State:
    """Up to version 5 there was one set of rules: see `RULES` in `service/engine/models/settings.py`. Comparisons of
    challengers had no numbers, and what expired was not counted with what was asked for. What intervals needed beside
    the counts of rounds and mistakes was kept."""
    if "statistics" in state:
        counted = _object(state, "statistics")
        state = {**state, "statistics": {name: kept for name, kept in counted.items() if name != "interval"}}
    if state.get("asking") is not None:
        asking = {name: value for name, value in _object(state, "asking").items() if name != "b_since"}
        new = {"expired": _value(state, "expired"), "wrong": [], "right": [], "lost": [], "key": None}
        state = {**state, "asking": asking | new}
    if "settings" in state:
        state = {**state, "settings": {**ADDED_SETTINGS, **_object(state, "settings"), "rules": 1}}
    contest = state.get("contest")
    if type(contest) is not dict or type(contest.get("challengers")) is not dict:
        return state
    challengers = {
        name: {**_without_variance(kept), "comparison": [0, 0]} if type(kept) is dict else kept
        for name, kept in contest["challengers"].items()
    }
    contest = _without_variance(contest)
    return {**state, "contest": {**contest, "comparisons": None, "challengers": challengers}}


def _without_variance(part: State) -> State:
    record = part.get("record")
    if type(record) is not list or len(record) != 4:
        return part
    rounds, mistakes, _, curve = record
    return {**part, "record": [rounds, mistakes, curve]}


def _with_curve(part: Any) -> Any:
    if type(part) is not dict or "record" not in part:
        return part
    return {**part, "record": with_curve_begun(part["record"])}


def _value(part: State, name: str) -> Any:
    saved.check(name in part, name, "is missing")
    return part[name]


def _object(part: State, name: str) -> State:
    """A part of the state that a step looks into: an export may have anything in its place."""
    value = _value(part, name)
    saved.check(type(value) is dict, name, "must be an object")
    return value  # type: ignore[no-any-return]


def _stepped_from(state: State, version: int) -> Any:
    """The version that began the statistics, which is this one unless an earlier step has said another."""
    said = _value(state, "stepped_from")
    return version if said is None or (type(said) is int and said == 0) else said


STEPS: dict[int, Callable[[State], State]] = {1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, 5: _from_5}
"""By the version that a step starts from. A step has to accept a state with `features` and `classifier` only, which
is all that a fit has."""


def step_up(version: int, state: State) -> State:
    """A model's state as this version would have written it; `saved.BadState` names what no older one has written."""
    for step in range(version, STATE_VERSION):
        state = STEPS[step](state)
    if version < STATE_VERSION and "statistics" in state:
        # A statistic that the older program did not have begins with the next reveal.
        state = {**state, "statistics": Statistics().state() | _object(state, "statistics")}
    return state


def read_state(data: StateBytes) -> State:
    """The state of a snapshot or an import."""
    return step_up(*decode_state(data))


def read_fit(features: bytes, classifier: bytes) -> tuple[State, State]:
    """The states of the features and the classifier that a fit has made, both by the same program."""
    version, of_features = decode_state(features)
    _, of_classifier = decode_state(classifier)
    state = step_up(version, {"features": of_features, "classifier": of_classifier})
    return state["features"], state["classifier"]
