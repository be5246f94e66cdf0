"""Which models have events that their summaries do not cover yet."""

import time
from collections.abc import Iterator
from typing import NamedTuple


class _First(NamedTuple):
    """The first event of a model that its summary does not cover, or an event shortly before that."""

    seq: int
    at: int


class Uncovered:
    """The first uncovered event of each model, by its life.

    A model that is learned from all the time is never covered to its end. Each summary moves its first uncovered
    event forward all the same, so that one busy model does not hold back how far the summaries of all have come.
    """

    def __init__(self) -> None:
        self._first: dict[int, _First] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._first)

    def add(self, life: int, seq: int, at: int) -> None:
        """There is an event at `seq`, of the time `at`, that the summary does not cover."""
        first = self._first.get(life)
        if first is None or seq < first.seq:
            self._first[life] = _First(seq, at)

    def cover(self, life: int, through: int, last_seq: int) -> None:
        """The summary covers what came up to `through`; the model's newest event is `last_seq`."""
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
        """The models whose first uncovered event came up to this time."""
        return [life for life, first in self._first.items() if before is None or first.at <= before]

    def first_seq(self, default: int) -> int:
        """The first uncovered event of all."""
        return min((first.seq for first in self._first.values()), default=default)
