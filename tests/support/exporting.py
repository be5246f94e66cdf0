"""Exports of models as their clients read them, without a service."""

from typing import Any

import msgspec

from service.engine.models.model import Model
from service.engine.transfer.json_export import _plain, export_of, learned
from service.web.http.responses import json_slices


def export_model(model: Model) -> dict[str, Any]:
    exported: dict[str, Any] = _as_json(export_of(learned(model)))
    return exported


def plain(part: Any) -> Any:
    """A part of a state as an export has it."""
    return _as_json(_plain(part))


def _as_json(content: Any) -> Any:
    return msgspec.json.decode(b"".join(json_slices(content)))
