"""What is checked before anything is journaled, so that applying an event never fails."""

from typing import Any

from service.engine.model import Model
from service.errors import InvalidRequest, UnknownLabel
from service.events import Label
from service.learning.vectors import LARGEST

Sent = list[float] | dict[str, Any]
"""Features as a client sends them."""

LabelSent = bool | int | float | str
"""A label as a client sends it: to JSON, 1.0 is the integer 1."""

LABELS_SHOWN = 10
LABEL_CHARS_MAX = 256
LABEL_ABS_MAX = 2**63 - 1


def check_features(sent: Sent, *, count_max: int, abs_max: float) -> None:
    """InvalidRequest if there are none, too many, or one is too large; the rest is the model's to check."""
    if not sent:
        raise InvalidRequest.at("features", "must not be empty")
    if len(sent) > count_max:
        raise InvalidRequest.at("features", f"at most {count_max} features are accepted")
    if isinstance(sent, dict):
        numbers = ((name, value) for name, value in sent.items() if isinstance(value, int | float))
        large = next((f".{name}" for name, value in numbers if abs(value) > abs_max), None)
    elif abs_max < LARGEST and (max(sent) > abs_max or min(sent) < -abs_max):  # else the model checks it
        large = next(f"[{at}]" for at, value in enumerate(sent) if abs(value) > abs_max)
    else:
        return
    if large is not None:
        raise InvalidRequest.at(f"features{large}", f"must be between -{abs_max:g} and {abs_max:g}")


def check_label(model: Model, label: Label) -> None:
    """UnknownLabel unless the model has it, or may have one more."""
    if model.labels.index(label) >= 0:
        return
    known = len(model.labels.values)
    if model.settings["labels"] is not None:
        shown = ", ".join(repr(value) for value in model.labels.values[:LABELS_SHOWN])
        raise UnknownLabel(f"the model's labels are {shown}{' and others' if known > LABELS_SHOWN else ''}")
    if known >= model.settings["classes_max"]:
        raise UnknownLabel(f"the model has {known} classes, and no more are taken")
    room = max(capacity(model.settings["features"]), model.features.size())
    if room * (known + 1) > model.settings["weights_max"]:
        raise UnknownLabel(f"the model has {known} classes, and one more could make too many weights")


def capacity(features: dict[str, Any]) -> int:
    """How many weights a class may come to have, as far as completed settings tell."""
    if features["kind"] == "hashed":
        return 1 << int(features["bits"])
    if features["kind"] == "named":
        return int(features["names_max"])
    return int((features["fourier"] or {}).get("features") or features["dimension"] or 1)


def plain_label(label: LabelSent, field: str = "label") -> Label:
    """A label as the engine takes it; InvalidRequest if it is none.

    >>> plain_label(1.0), plain_label(True), plain_label("spam")
    (1, True, 'spam')
    """
    if isinstance(label, float):
        if not label.is_integer():
            raise InvalidRequest.at(field, "must be a string, an integer or a boolean")
        label = int(label)
    if isinstance(label, str):
        if len(label) > LABEL_CHARS_MAX:
            raise InvalidRequest.at(field, f"must have at most {LABEL_CHARS_MAX} characters")
    elif abs(label) > LABEL_ABS_MAX:
        raise InvalidRequest.at(field, "must fit into 64 bits")
    return label
