"""The outcome of each round, kept so that a retry gets the first answer again."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate, count
from math import isnan, nan

import msgspec
import numpy as np

from service.engine.model.labels import Labels
from service.events import Label


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a revealed round did, and the model's counts after it. There is one for every round, so it must be cheap."""

    served: int
    """The number of the class that was served, -1 for none."""
    score: float
    mistake: bool
    updated: bool
    """Whether the weights changed."""
    version: int
    rounds: int
    mistakes: int
    probability: float | None = None
    """With what probability the label was right, as it was served."""


class BlockOutcome:
    """The outcomes of a block of rounds, a column for each field of `Outcome`.

    `labels` are the labels of the served classes; after a reset the model may have others. `rises` are the rounds at
    which a drift was detected.
    """

    __slots__ = (
        "labels",
        "mistake",
        "mistakes_before",
        "probabilities",
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
        self.probabilities: list[float | None] = []

    def __len__(self) -> int:
        return len(self.served)

    def add(self, outcome: Outcome) -> None:
        self.add_all(
            [outcome.served], [outcome.score], [outcome.mistake], [outcome.updated], [outcome.probability]
        )

    def add_all(
        self,
        served: list[int],
        scores: list[float],
        mistake: list[bool],
        updated: list[bool],
        probabilities: list[float | None],
    ) -> None:
        self.served += served
        self.scores += scores
        self.mistake += mistake
        self.updated += updated
        self.probabilities += probabilities

    def __iter__(self) -> Iterator[Outcome]:
        """The outcome of each round.

        >>> block = BlockOutcome(Labels([-1, 1]), version=7, rounds=5, mistakes=2)
        >>> block.add_all([1, 0], [0.5, -0.5], [True, False], [True, False], [None, 0.6])
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
            self.probabilities,
        )


class Round(msgspec.Struct, frozen=True):
    """A finished round as its client sees it; `replayed` if it was finished before this request."""

    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    outcome: Outcome
    replayed: bool


COLUMNS = 1 + len(Outcome.__struct_fields__)
OUTCOME_BYTES = 8 * COLUMNS
OLD_COLUMNS = 8
"""How many numbers a row had when there were no probabilities, and no mark in front of the rows."""
MARK = -2.0
"""Stands before the rows. No sequence number is negative, so that older rows can be told from these."""


class OutcomeLog:
    """Outcomes by their events' sequence numbers, in rising order: 72 bytes each."""

    __slots__ = ("_rows",)

    def __init__(self, saved: bytes = b"") -> None:
        """`saved` is what `tobytes` gave, in this version or an older one, or several of these one after the other.

        ValueError if it is not.
        """
        self._rows = array("d")
        numbers = np.frombuffer(saved)
        while numbers.size:
            is_marked = bool(numbers[0] == MARK)
            width = COLUMNS if is_marked else OLD_COLUMNS
            numbers = numbers[is_marked:]
            marks = np.flatnonzero(numbers[::width] == MARK)
            end = int(marks[0]) * width if marks.size else numbers.size
            rows, numbers = numbers[:end].reshape(-1, width), numbers[end:]
            if not is_marked:
                rows = np.column_stack((rows, np.full(len(rows), nan)))
            self._rows.frombytes(rows.tobytes())

    def __len__(self) -> int:
        return len(self._rows) // COLUMNS

    def add(self, seq: int, outcome: Outcome) -> None:
        # Every number is an integer below 2**53 or a double already, so doubles hold them all exactly.
        probability = outcome.probability
        self._rows.extend(
            (
                seq,
                outcome.served,
                outcome.score,
                outcome.mistake,
                outcome.updated,
                outcome.version,
                outcome.rounds,
                outcome.mistakes,
                nan if probability is None else probability,
            )
        )

    def find(self, seq: int) -> Outcome | None:
        """The outcome of one event.

        >>> log = OutcomeLog()
        >>> log.add(7, Outcome(1, 0.5, True, True, 3, 3, 2, 0.75))
        >>> OutcomeLog(log.tobytes()).find(7)
        Outcome(served=1, score=0.5, mistake=True, updated=True, version=3, rounds=3, mistakes=2, probability=0.75)
        """
        rows = np.frombuffer(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        at = int(np.searchsorted(rows[:, 0], seq))
        if at == len(rows) or rows[at, 0] != seq:
            return None
        _, served, score, mistake, updated, version, rounds, mistakes, probability = rows[at].tolist()
        return Outcome(
            int(served),
            score,
            bool(mistake),
            bool(updated),
            int(version),
            int(rounds),
            int(mistakes),
            None if isnan(probability) else probability,
        )

    def renumbered(self, seqs: Mapping[int, int]) -> OutcomeLog:
        """The outcomes of the events in `seqs`, under the numbers that these have there; they must rise, too.

        >>> log = OutcomeLog()
        >>> log.add(7, Outcome(1, 0.5, True, True, 3, 3, 2))
        >>> log.add(9, Outcome(0, 0.5, True, True, 4, 4, 3))
        >>> log.renumbered({9: 2}).find(2).version
        4
        """
        chosen = OutcomeLog()
        for at in range(0, len(self._rows), COLUMNS):
            if (seq := seqs.get(int(self._rows[at]))) is not None:
                chosen._rows.append(seq)
                chosen._rows += self._rows[at + 1 : at + COLUMNS]
        return chosen

    def tobytes(self) -> bytes:
        """The rows, to be kept. Two of these one after the other can be read as one."""
        return array("d", (MARK,)).tobytes() + self._rows.tobytes()
