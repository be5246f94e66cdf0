"""Checks of features, labels and weights before an event is appended, so that applying it never fails."""

from typing import Any

from novikoff.schemas import LabelSent
from service.engine.models.labels import LABEL_ABS_MAX, LABEL_CHARS_MAX
from service.engine.models.model import Model
from service.engine.models.sizes import classes_max, numbers_to_come
from service.errors import InvalidRequest, UnknownLabel
from service.events import Label
from service.learning.parameters import LEAST
from service.learning.statistics.confusion import CLASSES_MAX
from service.learning.vectors import LARGEST

Sent = list[float] | dict[str, Any]
"""Features as a client sends them."""

LABELS_SHOWN = 10


def check_features(sent: Sent, *, count_max: int, abs_max: float) -> None:
    """InvalidRequest if there are none, too many, or one is too large. `Features.read` checks the rest."""
    if not sent:
        raise InvalidRequest.at("features", "must not be empty")
    if len(sent) > count_max:
        raise InvalidRequest.at("features", f"more than {count_max} features")
    if isinstance(sent, dict):
        numbers = ((name, value) for name, value in sent.items() if isinstance(value, int | float))
        large = next((f".{name}" for name, value in numbers if abs(value) > abs_max), None)
    elif abs_max < LARGEST and (max(sent) > abs_max or min(sent) < -abs_max):  # else the model checks it
        large = next(f"[{at}]" for at, value in enumerate(sent) if abs(value) > abs_max)
    else:
        return
    if large is not None:
        raise InvalidRequest.at(f"features{large}", f"must be between -{abs_max:g} and {abs_max:g}")


def check_weight(weight: float, weight_max: float) -> None:
    """InvalidRequest for a weight of a reveal that is out of range."""
    if not LEAST <= weight <= weight_max:
        raise InvalidRequest.at("weight", f"must be at least {LEAST:g} and at most {weight_max:g}")


NewLabels = frozenset[tuple[type, Label]]
"""Labels that a model does not have yet; with their types, since `true` is not `1`."""

NONE_NEW: NewLabels = frozenset()


def check_label(model: Model, label: Label, under_way: NewLabels = NONE_NEW) -> NewLabels:
    """UnknownLabel unless the model has the label, or may have one more class; the label, if it is new.

    `under_way` are new labels of other rounds, which count as classes already.
    """
    if 0 <= model.labels.index(label) < CLASSES_MAX:
        return NONE_NEW
    checks = LabelChecks(model, under_way)
    checks.check(label)
    return frozenset(checks.new)


def check_new_labels(model: Model, new: NewLabels, under_way: NewLabels) -> None:
    """The same again for labels that were new, after something was waited for: others may have become classes."""
    checks = LabelChecks(model, under_way)
    for _, label in new:
        checks.check(label)


class LabelChecks:
    """Checks the labels of several rounds that are learned together, counting the new ones among them."""

    def __init__(self, model: Model, under_way: NewLabels = NONE_NEW) -> None:
        self._model = model
        self._to_come = {key for key in under_way if model.labels.index(key[1]) < 0}
        """The labels of these rounds and of others that the model does not have yet."""
        self.new: set[tuple[type, Label]] = set()

    def check(self, label: Label, dimension: int | None = None) -> None:
        """UnknownLabel as above. `dimension` is that of the first example, if nothing has fixed it yet."""
        key = type(label), label
        if key in self.new:
            return
        at = self._model.labels.index(label)
        if 0 <= at < CLASSES_MAX:
            return
        if at >= 0 or key not in self._to_come:
            self._check_room(at, dimension)
        self._to_come.add(key)
        self.new.add(key)

    def _check_room(self, at: int, dimension: int | None) -> None:
        model, known = self._model, len(self._model.labels.values)
        if at < 0 and model.settings["labels"] is not None:
            shown = ", ".join(repr(value) for value in model.labels.values[:LABELS_SHOWN])
            raise UnknownLabel(
                f"the model's labels are {shown}{' and others' if known > LABELS_SHOWN else ''}"
            )
        classes = known + len(self._to_come)
        # Models made by 0.1.0 may have been promised more classes than the statistics can count.
        if at >= 0 or classes >= min(classes_max(model.settings), CLASSES_MAX):
            raise UnknownLabel(f"class limit reached (`classes_max`, {classes})")
        if _numbers_to_come(model, dimension, classes + 1) > model.settings["weights_max"]:
            raise UnknownLabel(f"the model has {classes} classes; another one could exceed `weights_max`")


def check_dimension(model: Model, dimension: int) -> None:
    """InvalidRequest if a first example of so many numbers would give the model too many weights."""
    kept = _numbers_to_come(model, dimension, len(model.labels.values))
    if kept > (most := model.settings["weights_max"]):
        raise InvalidRequest.at(
            "features", f"{dimension} numbers would make {kept} weights; the model may have {most}"
        )


def _numbers_to_come(model: Model, dimension: int | None, classes: int) -> int:
    """How many numbers the model may come to keep with so many classes."""
    return numbers_to_come(model.settings, model.features.dimension or dimension, classes)


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
