"""A model as JSON and back, to the bit: how it moves between services."""

import base64
import hashlib
from typing import Any

import numpy as np

from service.engine.model import Model
from service.errors import InvalidExport
from service.events import RoundLearned
from service.journal.codec import encode_state

FORMAT = "novikoff-model/1"


def export_model(model: Model) -> dict[str, Any]:
    """All that a model is: settings, weights, names, statistics, version; with a digest over it."""
    state = model.state()
    return {"format": FORMAT, "digest": _digest(state), **_plain(state)}


def import_model(export: dict[str, Any]) -> Model:
    """The model of an export; InvalidExport if it is foreign, damaged or does not hold together."""
    if export.get("format") != FORMAT:
        raise InvalidExport(f"the field `format` must be {FORMAT!r}")
    try:
        state = _restored({key: value for key, value in export.items() if key not in ("format", "digest")})
        if _digest(state) != export.get("digest"):
            raise InvalidExport("the digest does not fit the rest: the export is damaged")
        # An imported model has no bound, so that of an earlier version need not be one that this one writes.
        state["bound"] = None
        model = Model.from_state(state)
        if _digest(model.state()) != _digest(state):
            raise InvalidExport("the state is not one that this version writes")
        _try_out(model)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError) as error:
        raise InvalidExport(f"the export does not hold together: {type(error).__name__}") from error
    return model


def _try_out(model: Model) -> None:
    """Predict and learn once with a copy, so that what would fail fails here."""
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


def _digest(state: dict[str, Any]) -> str:
    return hashlib.blake2b(encode_state(state), digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    """A part of a state in what JSON has.

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
