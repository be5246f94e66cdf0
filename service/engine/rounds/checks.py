"""Checks of features and labels before an event is appended, so that applying it never fails."""

from typing import Any

from service.engine.model.model import Model
from service.errors import InvalidRequest, UnknownLabel
from service.events import Label
from service.learning.classes import strategies
from service.learning.learners import algorithms
from service.learning.statistics.confusion import CLASSES_MAX
from service.learning.vectors import LARGEST

Sent = list[float] | dict[str, Any]
"""Features as a client sends them."""

LabelSent = bool | int | float | str
"""A label as a client sends it: to JSON, 1.0 is the integer 1."""

LABELS_SHOWN = 10
LABEL_CHARS_MAX = 256
LABEL_ABS_MAX = 2**63 - 1


def check_features(sent: Sent, *, count_max: int, abs_max: float) -> None:
    """InvalidRequest if there are none, too many, or one is too large. `Features.read` checks the rest."""
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


def check_label(model: Model, label: Label, also_new: int = 0) -> None:
    """UnknownLabel unless the model has the label, or may have one more class on top of `also_new` new ones."""
    at = model.labels.index(label)
    known = len(model.labels.values)
    if 0 <= at < CLASSES_MAX:
        return
    if at < 0 and model.settings["labels"] is not None:
        shown = ", ".join(repr(value) for value in model.labels.values[:LABELS_SHOWN])
        raise UnknownLabel(f"the model's labels are {shown}{' and others' if known > LABELS_SHOWN else ''}")
    classes = known + also_new
    # Models made by 0.1.0 may have been promised more classes than the statistics can count.
    if at >= 0 or classes >= min(model.settings["classes_max"], CLASSES_MAX):
        raise UnknownLabel(f"the model has {classes} classes, and no more are taken")
    size = max(capacity(model.settings["features"]), model.features.size() - bool(model.settings["bias"]))
    if numbers_kept(model.settings, size, classes + 1) > model.settings["weights_max"]:
        raise UnknownLabel(f"the model has {classes} classes, and one more could make too many weights")


class LabelChecks:
    """Checks the labels of several rounds that are learned together, counting the new ones among them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._new: set[tuple[type, Label]] = set()

    def check(self, label: Label) -> None:
        key = type(label), label
        if key in self._new:
            return
        check_label(self._model, label, len(self._new))
        if self._model.labels.index(label) < 0:
            self._new.add(key)


def check_dimension(model: Model, dimension: int) -> None:
    """InvalidRequest if a first example of so many numbers would give the model too many weights."""
    size = capacity({**model.settings["features"], "dimension": dimension})
    kept, most = numbers_kept(model.settings, size, len(model.labels.values)), model.settings["weights_max"]
    if kept > most:
        raise InvalidRequest.at(
            "features", f"{dimension} numbers would make {kept} weights; the model may have {most}"
        )


def numbers_kept(settings: dict[str, Any], size: int, classes: int) -> int:
    """How many numbers the learners of such a model keep: for `size` features, the bias apart."""
    learners = strategies.learners(settings["multiclass"], classes)
    return max(1, learners) * algorithms.numbers_kept(settings["learner"], size)


def capacity(features: dict[str, Any]) -> int:
    """How many features a model may come to have, the bias apart, as far as completed settings tell."""
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
