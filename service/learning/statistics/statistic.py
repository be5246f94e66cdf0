"""What every statistic promises, the two records it is given, and what several of them need: ratios and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from service.learning.vectors import Array

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RevealedBlock:
    """Whole rounds that were revealed together: each label came with its features, so none of them is late."""

    truths: Integers
    """The true class of each round, by its index."""

    served: Integers
    """The class that was served for each round; -1 where no label could be served yet."""

    mistaken: Flags
    """Whether each was a mistake: `truths != served`."""

    mistakes: Integers
    """How many mistakes the model had made in its whole stream after each of these rounds."""

    revealed_before: int
    """How many rounds had been revealed before the first of these."""

    at_us: int
    """The time of the event, in microseconds since 1970, the same for all rounds of a block."""

    gaps: Array
    """How far the best score of each round was ahead of the second-best."""

    rises: list[int] = field(default_factory=list)
    """Filled by `Drift`: the numbers of the reveals (from 1) at which the error was found to have risen."""

    probabilities: list[float | None] = field(default_factory=list)
    """Filled by `Calibration`: the probability that each round's label was served with."""


class Asked(NamedTuple):
    """What a report may depend on beside the statistic's own state."""

    now_us: int
    """The time of the request, in microseconds since 1970."""

    classes: int
    """How many classes the model knows."""

    revealed: int
    """How many rounds have been revealed."""

    mistakes: int
    """How many of them were mistakes."""

    confidence: float = 0.95
    """The probability with which intervals are to hold."""


class Statistic(Protocol):
    """One statistic of a model's reveals: in constant time for each reveal, and in bounded memory.

    Its state is a function of the reveals alone, in the order of the journal, and of the times that their events
    carry, never of the clock: a replay gives the same state to the bit. `STATISTICS` lists all statistics.

    A new one is made with a model and thereafter gets every reveal once, either by `observe` or as part of a block by
    `observe_rows`. How reveals are cut into blocks differs between a first run and a replay, so the two must agree to
    the bit: `observe_rows` leaves the same state as `observe` for each round, one after the other.
    """

    DEFINITIONS: ClassVar[Mapping[str, str]]
    """Each number it reports and what it means in a sentence. docs/statistics.md has the same, and a test compares."""

    def observe(self, *args: Any) -> object:
        """Take in one reveal, after the model has learned it.

        Each statistic has the parameters that it needs, and `Statistics.observe` passes them. That call is written by
        hand: this is the hottest path of a reveal, and a loop over statistics with the same parameters for all would
        make it 15 % slower.
        """
        ...

    def observe_rows(self, block: RevealedBlock) -> None:
        """Take in the reveals of a block, at least one, after the model has learned them all."""
        ...

    def report(self, asked: Asked) -> dict[str, Any]:
        """Its fields of `/stats`: JSON values, classes by their indices, None for what is undefined; changes nothing.

        Two statistics may report the same field if both are objects, as `windows` is: they are merged.
        """
        ...

    def state(self) -> Any:
        """What a snapshot keeps: numbers, strings, bytes and lists of them. Equal statistics have equal states."""
        ...

    @classmethod
    def restore(cls, state: Any) -> Self:
        """The statistic that `state` was taken from, to the bit; `saved.BadState` if it cannot be one's state."""
        ...

    def check(self, counted: Asked) -> None:
        """`saved.BadState` unless it can be of so many rounds, mistakes and classes. For one that was restored."""
        ...


def ratio(part: float, whole: float) -> float | None:
    """`part / whole`, or None where there is no whole.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


def window(rounds: int, mistakes: int) -> dict[str, Any]:
    """The figures of one window of reveals.

    >>> window(100, 3)
    {'rounds': 100, 'mistakes': 3, 'error_rate': 0.03}
    """
    return {"rounds": rounds, "mistakes": mistakes, "error_rate": ratio(mistakes, rounds)}


GROUP = 32
"""The probabilities of so many reveals are multiplied before the product is split into mantissa and exponent: no
probability is below 1e-7, so none of these products leaves the range of numbers."""

BATCH_MAX = 1024


def batch_size(seen: int) -> int:
    """How many reveals are in the batch of the reveal with this number: batches end at multiples of their size.

    >>> [batch_size(seen) for seen in (32, 33, 128, 129, 512, 513, 2048, 2049, 8192, 8193)]
    [1, 8, 8, 16, 16, 64, 64, 256, 256, 1024]
    """
    if seen <= 512:
        return 1 if seen <= 32 else 8 if seen <= 128 else 16
    return 64 if seen <= 2048 else 256 if seen <= 8192 else BATCH_MAX


def end_after(seen: int) -> int:
    """The first reveal after this one that ends a group or a batch.

    >>> [end_after(seen) for seen in (0, 1, 32, 39, 40, 128, 159, 5000)]
    [1, 2, 40, 40, 48, 144, 160, 5024]
    """
    size = min(GROUP, batch_size(seen + 1))
    return seen - seen % size + size
