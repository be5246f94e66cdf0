"""Saved states: how their values are taken, each checked, and an error names the place of one that does not fit.

A snapshot is what this service has written. An export may have been written by anybody. Both are restored in the same
way: every part of a model takes its own state apart with these functions, and refuses what it could not have become.

An array that is mostly empty is kept by its entries: a hashed model has a quarter of a million weights by default, of
which few may ever be used; its snapshots and exports shall not be of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, ParamSpec, Self, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from service.learning.vectors import Array

Given = ParamSpec("Given")
Found = TypeVar("Found")

_SMALL = 1024
"""An array below this many entries is kept as it is."""


def packed(array: Array, fill: float = 0.0) -> Any:
    """A copy of the array, or its shape with the entries that are not `fill`, to the bit.

    >>> packed(np.array([0.0, 1.0]))
    array([0., 1.])
    >>> packed(np.eye(40))["values"].sum()
    np.float64(40.0)
    """
    if array.size < _SMALL:
        return array.copy()
    flat = array.ravel()
    is_kept = flat.view(np.int64) != np.float64(fill).view(np.int64)
    if 2 * np.count_nonzero(is_kept) >= len(flat):
        return array.copy()
    places = np.flatnonzero(is_kept)
    kept: dict[str, Any] = {"shape": list(array.shape)}
    if len(places):
        kept |= {"places": places.astype(np.int64), "values": flat[places]}
    return kept


def unpacked(kept: Any, fill: float = 0.0) -> Array:
    """The array again, which shares no memory with what was kept.

    >>> bool((unpacked(packed(np.eye(40))) == np.eye(40)).all())
    True
    """
    if not isinstance(kept, dict):
        return np.array(kept, dtype=np.float64)
    array = np.full(kept["shape"], fill) if fill else np.zeros(kept["shape"])
    if "places" in kept:
        array.ravel()[kept["places"]] = kept["values"]
    return array


COUNT_MAX = 2**53
"""No counter and no time in microseconds is larger: JSON numbers are exact up to here."""

ROUNDS_MAX = 2**40 - 1
"""How many rounds the statistics can count; see `statistics/cells.py`."""

WEIGHT_MAX = 1e165
"""No learner has larger weights, if no feature is larger than `vectors.LARGEST`: a step of AROW or SCW moves one by at
most 1e150, one of the other learners by far less, and there are less than 2^40 rounds."""

SCORE_MAX = 1e280
"""No score, nor a sum of a few hundred of them, is larger: a score is the sum of at most some millions of products of a
weight and a feature."""


Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Rounds = Annotated[int, Meta(ge=0, le=ROUNDS_MAX)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Weight = Annotated[float, Meta(ge=0.0, le=WEIGHT_MAX)]
Score = Annotated[float, Meta(ge=0.0, le=SCORE_MAX)]


class BadState(ValueError):
    """A state that no part of a model can have; `field` is the place, as in `classifier.learners[2].weights`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def within(place: str, function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """What a function returns; what it refuses is named as a place within this one.

    >>> within("statistics", within, "delay", whole, -1, "[0]")
    Traceback (most recent call last):
        ...
    service.learning.saved.BadState: statistics.delay[0]: must be a whole number from 0 to 9007199254740992
    """
    try:
        return function(*args, **kwargs)
    except BadState as error:
        dot = "." if error.field and not error.field.startswith("[") else ""
        error.field = f"{place}{dot}{error.field}"
        raise


def check(holds: bool, field: str, message: str) -> None:
    """BadState unless it holds."""
    if not holds:
        raise BadState(field, message)


def fields(state: Any, *names: str) -> tuple[Any, ...]:
    """The values of a part that has exactly these fields."""
    if type(state) is not dict:
        raise BadState("", "must be an object")
    for name in names:
        if name not in state:
            raise BadState(name, "is missing")
    if len(state) > len(names):
        raise BadState(str(next(name for name in state if name not in names))[:100], "unknown field")
    return tuple([state[name] for name in names])


class Part:
    """A part whose saved state is its fields in their order: an object, or a list where `IS_LIST`.

    A subclass is a dataclass with slots, since hot code assigns to them faster than to those of a msgspec struct. The
    types of its fields say what each may be, and `__post_init__` checks what concerns several of them.
    """

    __slots__ = ()
    IS_LIST: ClassVar[bool] = True
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    """Fields that are settings of the model."""

    def state(self) -> Any:
        """What `restore` makes this of again; it shares nothing with this that changes."""
        names: Any = self.__slots__
        kept = {name: getattr(self, name) for name in names}
        state = {name: value.copy() if type(value) is list else value for name, value in kept.items()}
        return list(state.values()) if self.IS_LIST else state

    @classmethod
    def restore(cls, state: Any) -> Self:
        """What `state` was taken from, to the bit; `BadState` if it cannot be one's state."""
        names: Any = cls.__slots__
        values = items(state, len(names)) if cls.IS_LIST else fields(state, *names)
        try:
            return msgspec.convert(dict(zip(names, values, strict=True)), cls, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, BadState):
                raise error.__cause__ from None
            message, _, place = str(error).rstrip("`").partition(" - at `$.")
            name = place.partition("[")[0]
            raise BadState(cls.place(name) + place.removeprefix(name), message) from None

    def restored(self, state: Any) -> Self:
        """The same, and it has the settings of this one."""
        part = self.restore(state)
        for name in self.SETTINGS:
            check(getattr(part, name) == getattr(self, name), name, "is not that of the settings")
        return part

    @classmethod
    def place(cls, name: str) -> str:
        """Where a field stands in the state."""
        names: Any = cls.__slots__
        return f"[{names.index(name)}]" if cls.IS_LIST else name

    def at_most(self, name: str, most: float) -> None:
        """BadState unless the field of this name is at most so large."""
        check(getattr(self, name) <= most, self.place(name), f"must be at most {most}")


def items(state: Any, count: int) -> list[Any]:
    """The values of a part that is a list of so many."""
    if type(state) is not list or len(state) != count:
        raise BadState("", f"must be a list of {count} values")
    return state


def whole(value: Any, field: str, most: int = COUNT_MAX, least: int = 0) -> int:
    """A whole number within limits: a counter, if nothing else is said."""
    if type(value) is not int or not least <= value <= most:
        raise BadState(field, f"must be a whole number from {least} to {most}")
    return value


def wholes(value: Any, field: str, most: int, count_max: int) -> list[int]:
    """A list of at most so many numbers, each from 0 to `most`."""
    if type(value) is not list or len(value) > count_max:
        raise BadState(field, f"must be a list of at most {count_max} whole numbers")
    # In C rather than one by one: most of what a snapshot of a young model takes is in such lists.
    if value and (set(map(type, value)) != {int} or min(value) < 0 or max(value) > most):
        raise BadState(field, f"must hold whole numbers from 0 to {most}")
    return value


def real(value: Any, field: str, least: float, most: float) -> float:
    """A number within limits; not a number is within none."""
    if type(value) is not float or not least <= value <= most:
        raise BadState(field, f"must be a number from {least:g} to {most:g}")
    return value


def truth(value: Any, field: str) -> bool:
    if type(value) is not bool:
        raise BadState(field, "must be true or false")
    return value


def memory(value: Any, field: str, bytes_max: int) -> bytes:
    if type(value) is not bytes or len(value) > bytes_max:
        raise BadState(field, f"must be at most {bytes_max} bytes")
    return value


def array(
    kept: Any,
    field: str,
    shape: tuple[int, ...],
    *,
    fill: float = 0.0,
    least: float = -WEIGHT_MAX,
    most: float = WEIGHT_MAX,
) -> Array:
    """An array of this shape whose entries are within limits, as `packed` has kept it; it shares no memory with that.

    The shape is compared before there is an array of it: it may say anything.
    """
    said: Any = kept.shape if isinstance(kept, np.ndarray) else None
    if isinstance(kept, dict):
        said = within(field, _shape_of_packed, kept)
    if said is None or tuple(said) != shape:
        raise BadState(field, f"must be an array of {' × '.join(map(str, shape))} numbers")
    values = kept["values"] if isinstance(kept, dict) and "values" in kept else kept
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f":
            raise BadState(field, "must hold numbers, not whole numbers")
        if values.size and not (least <= float(values.min()) and float(values.max()) <= most):
            raise BadState(field, f"must hold numbers from {least:g} to {most:g}")
    return unpacked(kept, fill)


def _shape_of_packed(kept: dict[str, Any]) -> list[int]:
    """The shape of an array that is kept by its entries, if these have places within it."""
    if kept.keys() == {"shape"}:
        return wholes(kept["shape"], "shape", COUNT_MAX, 2)
    shape, places, values = fields(kept, "shape", "places", "values")
    size = 1
    for length in wholes(shape, "shape", COUNT_MAX, 2):
        size *= length
    for name, part, kind in (("places", places, "i"), ("values", values, "f")):
        check(
            isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind == kind,
            name,
            "must be an array of numbers",
        )
    check(len(places) == len(values) > 0, "places", "must be as many as values")
    check(
        bool(places[0] >= 0 and places[-1] < size and (places[1:] > places[:-1]).all()),
        "places",
        "must ascend within the shape",
    )
    return shape  # type: ignore[no-any-return]
