"""What came of each round, kept so that a retry gets the first answer again."""

from array import array
from typing import NamedTuple

import numpy as np


class Outcome(NamedTuple):
    """What a revealed round did. `served` is the number of the class that was served, -1 for none."""

    served: int
    score: float
    mistake: bool
    updated: bool
    version: int
    rounds: int
    mistakes: int


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
