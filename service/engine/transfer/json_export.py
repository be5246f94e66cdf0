"""Export of a model as JSON, and import, to the bit: how a model moves between services."""

import base64
import hashlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from novikoff.schemas import NAME_RULE
from service.engine.models.challenger_settings import check_completed, check_plain
from service.engine.models.champion_and_challengers import Contest
from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits
from service.engine.models.sizes import numbers_kept
from service.engine.models.state_migrations import step_up
from service.engine.names import is_name
from service.errors import FieldError, InvalidExport, InvalidRequest
from service.events import RoundLearned
from service.journal.codec import STATE_VERSION, encode_part, state_parts
from service.learning import saved
from service.learning.learners.covariance import check_positive

FORMAT = "novikoff-model/"
"""The field `format` of an export: this and the version of the state."""

AROUND = ("format", "digest", "damaged")
"""Fields of an export that are no part of the state; `damaged` says what is missing in one of a damaged model."""

OF_HISTORY = ("amended", "evicted")
"""Parts of a state that are about the history of a model in this journal: exports go without them."""

DEPTH_MAX = 64
"""How deep the objects and lists of an export may be nested: far deeper than those of any model."""

FUTURE_MAX_US = 600_000_000
"""How far the clock of the machine that made an export may be ahead of the one here."""


def export_of(state: dict[str, Any]) -> dict[str, Any]:
    """All that a model is, of what was `learned`: settings, weights, names, statistics, version; with a digest over it.

    Arrays are as they are, for a writer that takes them in slices.
    """
    return {**_head(state), **_plain(state)}


def learned(model: Model) -> dict[str, Any]:
    """A copy of a model's state without what is known of its corrections and evictions, which are about its history
    here."""
    state = model.state()
    for part in OF_HISTORY:
        state.pop(part, None)
    return state


def _head(state: dict[str, Any]) -> dict[str, Any]:
    return {"format": f"{FORMAT}{STATE_VERSION}", "digest": _digest(state, STATE_VERSION)}


class Imported(NamedTuple):
    """A model that an export has brought, checked: what the event of its import carries."""

    settings: dict[str, Any]
    state: bytes


def import_model(export: Any, limits: ModelLimits, now: int) -> Imported:
    """The model of an export; InvalidExport if it is no export, damaged, or none that this service could have made.

    `now` is the time in microseconds: nothing in an export can be of much later. Of the state every part is checked,
    since an event is applied again at every start, and by then it is too late to refuse it.
    """
    try:
        version = _version(export.get("format") if isinstance(export, dict) else None)
        state = _restored({key: value for key, value in export.items() if key not in AROUND})
        if _digest(state, version) != export.get("digest"):
            raise _invalid("digest", "contradicts the rest: the export is damaged")
        saved.check(isinstance(state.get("bound", 0), dict | None), "bound", "must be null or an object")
        check_plain(state.get("settings"), "settings")
        state["bound"] = None  # an imported model has none, so that of an earlier version is of no use
        state = step_up(version, state)
        for part in OF_HISTORY:
            saved.check(part not in state, part, "unknown field")
        name = state.get("name")
        saved.check(is_name(name), "name", f"must be {NAME_RULE}")
        saved.within("settings", check_completed, state.get("settings"), limits)
        model = Model.from_state(state)
        saved.within("statistics", model.statistics.check, len(model.labels.values))
        if model.panel is not None:
            # A champion that was a challenger has erred by what it said, not by what was served.
            mistakes = model.mistakes if model.contest is None else model.revealed
            saved.within("classifier", model.panel.check, model.revealed, mistakes)
        if model.sets is not None:
            saved.within("sets", model.sets.check, model.revealed, len(model.labels.values))
        if model.asking is not None:
            saved.within("asking", model.asking.check, model.revealed)
        saved.within("classifier", _check_covariances, state["classifier"])
        if model.contest is not None:
            saved.within("contest", _check_contest, model, model.contest, state["contest"])
        _check_times(model, now)
        _check_limits(model)
        _check_as_written(model.state(), state)
        _try_out(model)
    except saved.BadState as error:
        raise _invalid(error.field, error.message) from None
    except InvalidRequest as error:
        raise _invalid(f"settings.{error.fields[0].field}", error.fields[0].message) from None
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError) as error:
        raise InvalidExport(f"the export is inconsistent: {type(error).__name__}") from error
    return Imported(model.settings, model.to_bytes())


def _invalid(field: str, message: str) -> InvalidExport:
    return InvalidExport(f"{field}: {message}", (FieldError(field, message),))


def _check_covariances(state: dict[str, Any]) -> None:
    """BadState for a full covariance of the classifier, or of one of its learners, that is none."""
    matrix = state.get("covariance")
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2:
        saved.within("covariance", check_positive, matrix)
    for name in ("learners", "experts"):
        for at, part in enumerate(state.get(name, ())):
            saved.within(f"{name}[{at}]", _check_covariances, part)


def _check_contest(model: Model, contest: Contest, state: dict[str, Any]) -> None:
    """BadState for challengers that no model with these statistics can have."""
    contest.check(model)
    for name, part in state["challengers"].items():
        saved.within(f"challengers.{name}.classifier", _check_covariances, part["classifier"])


def _check_times(model: Model, now: int) -> None:
    """BadState for later times than now: what is predicted and revealed until then would not count as it should."""
    for field in ("created_at", "updated_at", "began_at"):
        saved.check(getattr(model, field) <= now + FUTURE_MAX_US, field, "is in the future")
    second = model.statistics.clock.second
    saved.check(second * 1_000_000 <= now + FUTURE_MAX_US, "statistics.clock[0]", "is in the future")
    for name, challenger in model.contest.challengers.items() if model.contest is not None else ():
        is_past = challenger.compared_since <= now + FUTURE_MAX_US
        saved.check(is_past, f"contest.challengers.{name}.comparison[1]", "is in the future")


def _check_limits(model: Model) -> None:
    """BadState if the model has grown beyond what its settings, which are within the service's limits, allow."""
    settings, classes = model.settings, len(model.labels.values)
    most = settings["classes_max"] if settings["multiclass"] is not None else 2
    saved.check(classes <= most, "labels", f"must be at most {most}")
    kept = 0
    for one, features in model.learners():
        size = features.size()
        if one["size_max"] is not None:
            saved.check(size <= one["size_max"], "features", f"must be at most {one['size_max']}")
        kept += numbers_kept(one, max(0, size - settings["bias"]), classes)
    saved.check(
        kept <= settings["weights_max"],
        "classifier",
        f"has {kept} weights, and the settings allow {settings['weights_max']}",
    )


def _version(form: object) -> int:
    """The version of the state in an export of this format.

    >>> _version("novikoff-model/1")
    1
    """
    known = {f"{FORMAT}{version}": version for version in range(1, STATE_VERSION + 1)}
    if isinstance(form, str) and form in known:
        return known[form]
    raise _invalid(
        "format", f"must be one of {', '.join(known)}: not an export, or written by a newer version"
    )


def _check_as_written(written: dict[str, Any], read: dict[str, Any]) -> None:
    """BadState if what was read is not a value that this version writes of the model that was made of it."""
    if _digest(_sorted(written), STATE_VERSION) != _digest(_sorted(read), STATE_VERSION):
        place = next(_differences(written, read), "format")
        raise saved.BadState(place, "is not a value that this version writes")


def _differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where two parts of states differ.

    >>> list(_differences({"a": 1, "b": [1, 2], "c": 0}, {"b": [1, 3], "a": 1.0}))
    ['c', 'a', 'b[1]']
    """
    if isinstance(one, dict) and isinstance(other, dict):
        within = f"{place}." if place else ""
        yield from (f"{within}{key}" for key in sorted(one.keys() ^ other.keys()))
        for key in sorted(one.keys() & other.keys()):
            yield from _differences(one[key], other[key], f"{within}{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, parts in enumerate(zip(one, other, strict=True)):
            yield from _differences(*parts, f"{place}[{at}]")
    elif encode_part(one) != encode_part(other):
        yield place


def _try_out(model: Model) -> None:
    """Predict, learn and report once with a copy, so that what no check has found fails here and not later."""
    copy = Model.from_bytes(model.to_bytes())
    dimension = copy.features.dimension
    if dimension is not None:
        sent: Any = {"feature": 1.0} if dimension == 0 else [1.0] * dimension
        features = copy.features.encode(copy.features.read(sent))
        label = copy.labels.values[0] if copy.labels.values else "label"
        copy.apply(RoundLearned(copy.name, copy.updated_at, None, label, features))
    copy.report(copy.updated_at)
    copy.learner_curves()


def _sorted(value: Any) -> Any:
    """A state with its fields in the order of their names: a state of an older version may have another order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(part) for part in value] if isinstance(value, list) else value


def _digest(state: dict[str, Any], version: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in state_parts(state, version):  # a large state in one piece would hold the interpreter for long
        digest.update(part)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """A part of a state as JSON, but for its arrays.

    >>> _plain({"w": np.array([1.0]), "b": b"x"})
    {'w': {'$array': array([1.]), 'kind': 'f', 'shape': [1]}, 'b': {'$bytes': 'eA=='}}
    """
    if isinstance(value, np.ndarray):
        return {"$array": value.ravel(), "kind": value.dtype.kind, "shape": list(value.shape)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _restored(value: Any, depth: int = 0) -> Any:
    saved.check(depth < DEPTH_MAX, "", f"must not be nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, dict):
        if "$array" in value:
            return _array(*saved.fields(value, "$array", "kind", "shape"))
        if "$bytes" in value:
            return _bytes(*saved.fields(value, "$bytes"))
        restored = {}
        for key, part in value.items():
            restored[key] = saved.within(key, _restored, part, depth + 1)
        return restored
    if isinstance(value, list):
        return [_restored(part, depth + 1) for part in value]
    if type(value) is int:
        saved.check(-(2**63) <= value < 2**64, "", "must fit into 64 bits")
    return value


def _bytes(text: Any) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise saved.BadState("$bytes", "must be base64") from None
    # The last character may have bits that are no part of a byte.
    saved.check(base64.b64encode(content).decode() == text, "$bytes", "must be base64 as it is written here")
    return content


def _array(numbers: Any, kind: Any, shape: Any) -> np.ndarray[Any, Any]:
    saved.check(kind in ("f", "i"), "kind", "must be f or i")
    saved.check(
        isinstance(numbers, list) and all(type(number) in (int, float) for number in numbers),
        "$array",
        "must be a list of numbers",
    )
    lengths = saved.wholes(shape, "shape", saved.COUNT_MAX, 2)
    saved.check(math.prod(lengths) == len(numbers), "shape", f"must be of {len(numbers)} numbers")
    try:
        array = np.array(numbers, dtype=np.float64 if kind == "f" else np.int64)
    except OverflowError:
        raise saved.BadState("$array", "must hold numbers that fit into 64 bits") from None
    # Else it would be another number without a word: 2⁵³ + 1 has no place among floats, nor 1.5 among whole numbers.
    saved.check(
        array.tolist() == numbers, "$array", f"must hold numbers that an array of kind {kind} can hold"
    )
    return array.reshape(lengths)
