"""What every statistic promises, and the two records it is given."""

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
