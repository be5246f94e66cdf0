"""The outcome of each round, kept so that a retry gets the first answer again."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate, count
from typing import NamedTuple

import numpy as np

from service.engine.model.labels import Labels
from service.events import Label


class Outcome(NamedTuple):
    """What a revealed round did, and the model's counts after it."""

    served: int
    """The number of the class that was served, -1 for none."""
    score: float
    mistake: bool
    updated: bool
    """Whether the weights changed."""
    version: int
    rounds: int
    mistakes: int


class BlockOutcome:
    """The outcomes of a block of rounds, a column for each field of `Outcome`.

    `labels` are the labels of the served classes; after a reset the model may have others. `rises` are the rounds at
    which a drift was detected.
    """

    __slots__ = (
        "labels",
        "mistake",
        "mistakes_before",
        "rises",
        "rounds_before",
        "scores",
        "served",
        "updated",
        "version_before",
    )

    def __init__(self, labels: Labels, *, version: int, rounds: int, mistakes: int) -> None:
        self.labels = labels
        self.rises: list[int] = []
        self.version_before = version
        self.rounds_before = rounds
        self.mistakes_before = mistakes
        self.served: list[int] = []
        self.scores: list[float] = []
        self.mistake: list[bool] = []
        self.updated: list[bool] = []

    def __len__(self) -> int:
        return len(self.served)

    def add(self, outcome: Outcome) -> None:
        self.add_all([outcome.served], [outcome.score], [outcome.mistake], [outcome.updated])

    def add_all(
        self, served: list[int], scores: list[float], mistake: list[bool], updated: list[bool]
    ) -> None:
        self.served += served
        self.scores += scores
        self.mistake += mistake
        self.updated += updated

    def __iter__(self) -> Iterator[Outcome]:
        """The outcome of each round.

        >>> block = BlockOutcome(Labels([-1, 1]), version=7, rounds=5, mistakes=2)
        >>> block.add_all([1, 0], [0.5, -0.5], [True, False], [True, False])
        >>> [(outcome.version, outcome.rounds, outcome.mistakes) for outcome in block]
        [(8, 6, 3), (9, 7, 3)]
        """
        mistakes = accumulate(self.mistake, initial=self.mistakes_before)
        next(mistakes)
        return map(
            Outcome,
            self.served,
            self.scores,
            self.mistake,
            self.updated,
            count(self.version_before + 1),
            count(self.rounds_before + 1),
            mistakes,
        )


class Round(NamedTuple):
    """A finished round as its client sees it; `replayed` if it was finished before this request."""

    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    outcome: Outcome
    replayed: bool


COLUMNS = 1 + len(Outcome._fields)


class OutcomeLog:
    """Outcomes by their events' sequence numbers, in rising order: 64 bytes each."""

    __slots__ = ("_rows",)

    def __init__(self, rows: bytes = b"") -> None:
        self._rows = array("d", rows)

    def add(self, seq: int, outcome: Outcome) -> None:
        # Every number is an integer below 2**53 or a double already, so doubles hold them all exactly.
        self._rows.extend((seq, *outcome))

    def find(self, seq: int) -> Outcome | None:
        """The outcome of one event.

        >>> log = OutcomeLog()
        >>> log.add(7, Outcome(1, 0.5, True, True, 3, 3, 2))
        >>> OutcomeLog(log.tobytes()).find(7)
        Outcome(served=1, score=0.5, mistake=True, updated=True, version=3, rounds=3, mistakes=2)
        """
        rows = np.frombuffer(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        at = int(np.searchsorted(rows[:, 0], seq))
        if at == len(rows) or rows[at, 0] != seq:
            return None
        _, served, score, mistake, updated, version, rounds, mistakes = rows[at].tolist()
        return Outcome(
            int(served), score, bool(mistake), bool(updated), int(version), int(rounds), int(mistakes)
        )

    def tobytes(self) -> bytes:
        return self._rows.tobytes()
