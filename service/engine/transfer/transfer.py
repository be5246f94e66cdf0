"""Export of a model as JSON, and import, to the bit: how a model moves between services."""

import base64
import hashlib
from typing import Any

import numpy as np

from service.engine.model.model import Model
from service.engine.model.state_steps import step_up
from service.errors import InvalidExport
from service.events import RoundLearned
from service.journal.codec import STATE_VERSION, encode_state

FORMAT = "novikoff-model/"
"""The field `format` of an export: this and the version of the state."""


def export_model(model: Model) -> dict[str, Any]:
    """All that a model is: settings, weights, names, statistics, version; with a digest over it."""
    state = model.state()
    return {"format": f"{FORMAT}{STATE_VERSION}", "digest": _digest(state, STATE_VERSION), **_plain(state)}


def import_model(export: dict[str, Any]) -> Model:
    """The model of an export; InvalidExport if it is no export, damaged or inconsistent."""
    version = _version(export.get("format"))
    try:
        state = _restored({key: value for key, value in export.items() if key not in ("format", "digest")})
        if _digest(state, version) != export.get("digest"):
            raise InvalidExport("the digest does not fit the rest: the export is damaged")
        state["bound"] = None  # an imported model has none, so that of an earlier version is of no use
        model = Model.from_state(step_up(version, state))
        if version == STATE_VERSION and _digest(model.state(), version) != _digest(state, version):
            raise InvalidExport("the state is not one that this version writes")
        _try_out(model)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError) as error:
        raise InvalidExport(f"the export does not hold together: {type(error).__name__}") from error
    return model


def _version(form: object) -> int:
    """The version of the state in an export of this format.

    >>> _version("novikoff-model/1")
    1
    """
    known = {f"{FORMAT}{version}": version for version in range(1, STATE_VERSION + 1)}
    if isinstance(form, str) and form in known:
        return known[form]
    raise InvalidExport(
        f"the field `format` must be one of {', '.join(known)}: this is no export, or one of a newer Novikoff"
    )


def _try_out(model: Model) -> None:
    """Predict and learn once with a copy, so that an inconsistent export fails here and not later."""
    size = model.features.size()
    for _, weights in model.weights():
        if len(weights) != size or not np.isfinite(weights).all():
            raise ValueError("weights of another size")
    copy = Model.from_bytes(model.to_bytes())
    dimension = copy.features.dimension
    if dimension is not None:
        sent: Any = {"feature": 1.0} if dimension == 0 else [1.0] * dimension
        features = copy.features.encode(copy.features.read(sent))
        label = copy.labels.values[0] if copy.labels.values else "label"
        copy.apply(RoundLearned(copy.name, copy.updated_at, None, label, features))
        copy.report(copy.updated_at)


def _digest(state: dict[str, Any], version: int) -> str:
    return hashlib.blake2b(encode_state(state, version), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    """A part of a state as JSON.

    >>> _plain({"w": np.array([1.0]), "b": b"x"})
    {'w': {'$array': [1.0], 'kind': 'f', 'shape': [1]}, 'b': {'$bytes': 'eA=='}}
    """
    if isinstance(value, np.ndarray):
        return {"$array": value.ravel().tolist(), "kind": value.dtype.kind, "shape": list(value.shape)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if "$array" in value:
            kind = {"f": np.float64, "i": np.int64}[value["kind"]]
            return np.array(value["$array"], dtype=kind).reshape(value["shape"])
        if "$bytes" in value:
            return base64.b64decode(value["$bytes"], validate=True)
        return {key: _restored(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_restored(part) for part in value]
    return value
