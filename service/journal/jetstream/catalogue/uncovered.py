"""Which models have events that their summaries do not cover yet."""

import time
from collections.abc import Iterator
from typing import NamedTuple


class _First(NamedTuple):
    """The first event of a model that its summary does not cover."""

    seq: int
    """Its sequence number, or a smaller one: no event from there up to it is of the model."""
    at: int
    """Its time, or when the summary was made that covers the events before it."""


class Uncovered:
    """The first uncovered event of each model, by its life.

    A busy model is never covered completely. Each summary moves its first uncovered event forward all the same, so
    that one busy model does not hold back `first_seq`, up to which the summaries of all models are complete.
    """

    def __init__(self) -> None:
        self._first: dict[int, _First] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._first)

    def add(self, life: int, seq: int, at: int) -> None:
        """Note an event at `seq`, of the time `at`, that the summary does not cover."""
        first = self._first.get(life)
        if first is None or seq < first.seq:
            self._first[life] = _First(seq, at)

    def cover(self, life: int, through: int, last_seq: int) -> None:
        """Note that the summary covers the events up to `through`; the model's newest event is `last_seq`."""
        first = self._first.get(life)
        if first is None:
            return
        if last_seq <= through:
            del self._first[life]
        elif first.seq <= through:
            self._first[life] = _First(through + 1, time.time_ns() // 1000)

    def drop(self, life: int) -> None:
        """The model was deleted."""
        self._first.pop(life, None)

    def since(self, before: int | None) -> list[int]:
        """The lives whose first uncovered event came up to the time `before`; None: all."""
        return [life for life, first in self._first.items() if before is None or first.at <= before]

    def first_seq(self, default: int) -> int:
        """The first uncovered event of all models; `default` if everything is covered."""
        return min((first.seq for first in self._first.values()), default=default)
