"""What came of rounds, and a compact log of it."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Container, Iterator, Mapping
from itertools import accumulate, count, repeat
from math import isnan, nan

import msgspec
import numpy as np

from service.engine.models.labels import Labels
from service.events import Answered, Label
from service.learning.vectors import Array


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
    set: list[int] | None = None
    """Of a whole round of a model with a `coverage`: the classes that were not ruled out; None if nothing was."""


class BlockOutcome:
    """The outcomes of a block of rounds, a column for each field of `Outcome`.

    `labels` are the labels of the served classes; after a reset the model may have others. `rises` are the rounds at
    which a drift was detected. `sets` is None if the model serves no sets.
    """

    def __init__(self, labels: Labels, *, version: int, rounds: int, mistakes: int) -> None:
        self.labels = labels
        self.sets: list[list[int] | None] | None = None
        self.labels_may_grow = False
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
        if self.sets is not None:
            self.sets.append(outcome.set)

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

    def labels_in(self, served: list[int] | None) -> list[Label] | None:
        """The labels of one of `sets`."""
        return self.labels.in_set(served, may_grow=self.labels_may_grow)

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
            repeat(None) if self.sets is None else self.sets,
        )


def answered_with(labels: Labels, outcome: Outcome) -> Answered:
    """What a whole round was answered with. `labels` are those of its model."""
    return Answered(labels.label(outcome.served), outcome.score, outcome.probability, outcome.updated)


class Round(msgspec.Struct, frozen=True):
    """A finished round as its client sees it; `replayed` if it was finished before this request."""

    prediction_id: str | None
    model: str
    predicted: Label | None
    label: Label
    outcome: Outcome
    replayed: bool
    set: list[Label] | msgspec.UnsetType | None = msgspec.UNSET
    """Of a whole round of a model with a `coverage`: the labels that were not ruled out, None for any label."""


COLUMNS = len(Outcome.__struct_fields__)
"""The event's sequence number, and all of an outcome but its set."""
OUTCOME_BYTES = 8 * COLUMNS
_pack_row = struct.Struct(f"={COLUMNS}d").pack
OLD_COLUMNS = 8
"""How many numbers a row had when there were no probabilities, and no mark in front of the rows."""
MARK = -2.0
"""Stands before the rows. No sequence number is negative, so that older rows are recognised."""
SETS_MARK = -3.0
"""Stands before the sets of these rows, if there are any, and before how many numbers these take."""


def outcome_bytes(outcome: Outcome) -> int:
    """What an outcome takes in memory, by estimate."""
    return OUTCOME_BYTES if outcome.set is None else OUTCOME_BYTES + set_bytes(outcome.set)


class OutcomeLog:
    """Outcomes by their events' sequence numbers, in rising order: 72 bytes each, and their sets of labels."""

    __slots__ = ("_rows", "_sets")

    def __init__(self, saved: bytes = b"") -> None:
        """`saved` is what `tobytes` gave, in this version or an older one, or several of these one after the other.

        ValueError if it is not.
        """
        self._rows = array("d")
        self._sets = KeptSets()
        numbers = np.frombuffer(saved)
        while numbers.size:
            if numbers[0] == SETS_MARK:
                end = 2 + int(numbers[1]) if numbers.size > 1 and 0 <= numbers[1] < numbers.size else 0
                if not 2 <= end <= numbers.size:
                    raise ValueError("the sets of outcomes are cut off")
                self._sets.read(numbers[2:end].tobytes())
                numbers = numbers[end:]
            else:
                numbers = self._read_rows(numbers)

    def _read_rows(self, numbers: Array) -> Array:
        """Take the rows up to the next mark; what is left."""
        is_marked = bool(numbers[0] == MARK)
        width = COLUMNS if is_marked else OLD_COLUMNS
        numbers = numbers[is_marked:]
        marks = np.flatnonzero((numbers[::width] == MARK) | (numbers[::width] == SETS_MARK))
        end = int(marks[0]) * width if marks.size else numbers.size
        rows = numbers[:end].reshape(-1, width)
        if not is_marked:
            rows = np.column_stack((rows, np.full(len(rows), nan)))
        self._rows.frombytes(rows.tobytes())
        return numbers[end:]

    def __len__(self) -> int:
        return len(self._rows) // COLUMNS

    @property
    def size_bytes(self) -> int:
        """What they take in memory, by estimate."""
        return 8 * len(self._rows) + self._sets.size_bytes

    def add(self, seq: int, outcome: Outcome) -> None:
        # Every number is an integer below 2**53 or a double already, so doubles hold them all exactly.
        probability = outcome.probability
        self._rows.frombytes(
            _pack_row(
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
        if outcome.set is not None:
            self._sets.add(seq, outcome.set)

    def find(self, seq: int) -> Outcome | None:
        """The outcome of one event.

        >>> log = OutcomeLog()
        >>> log.add(7, Outcome(1, 0.5, True, True, 3, 3, 2, 0.75, [0, 1]))
        >>> OutcomeLog(log.tobytes()).find(7) == Outcome(1, 0.5, True, True, 3, 3, 2, 0.75, [0, 1])
        True
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
            self._sets.find(seq),
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
        chosen._sets = self._sets.renumbered(seqs)
        return chosen

    def without(self, seqs: Container[int]) -> OutcomeLog:
        """All but the outcomes of these events.

        >>> log = OutcomeLog()
        >>> log.add(7, Outcome(1, 0.5, True, True, 3, 3, 2))
        >>> log.without({7}).find(7)
        """
        kept = (int(self._rows[at]) for at in range(0, len(self._rows), COLUMNS))
        return self.renumbered({seq: seq for seq in kept if seq not in seqs})

    def tobytes(self) -> bytes:
        """The rows and the sets, to be kept. Two of these one after the other can be read as one."""
        rows, sets = array("d", (MARK,)).tobytes() + self._rows.tobytes(), self._sets.tobytes()
        return rows + array("d", (SETS_MARK, len(sets) // UNIT)).tobytes() + sets if sets else rows


UNIT = 8
"""What is kept is a row of numbers of 8 bytes each, as the outcomes are."""

SET_BYTES = 128
"""What a set takes in memory beside its bits: an entry of a dictionary, its key, and the head of its bytes."""


def set_bytes(classes: list[int]) -> int:
    """What a set takes in memory, by estimate.

    >>> set_bytes([]) == SET_BYTES, set_bytes([0, 63]) == SET_BYTES + 8, set_bytes([64]) == SET_BYTES + 16
    (True, True, True)
    """
    return SET_BYTES + UNIT * _units(max(classes) + 1 if classes else 0)


def _units(bits: int) -> int:
    return -(-bits // (8 * UNIT))


class KeptSets:
    """Sets of classes by the sequence numbers of their events, a bit for each class.

    >>> kept = KeptSets()
    >>> kept.add(7, [0, 2])
    >>> kept.add(9, [])
    >>> again = KeptSets()
    >>> again.read(kept.tobytes())
    >>> again.find(7), again.find(8), again.find(9)
    ([0, 2], None, [])
    """

    __slots__ = ("_bits", "size_bytes")

    def __init__(self) -> None:
        self._bits: dict[int, bytes] = {}
        self.size_bytes = 0
        """What they take in memory, by estimate."""

    def add(self, seq: int, classes: list[int]) -> None:
        bits = sum([1 << each for each in classes])
        self._add_bits(seq, bits.to_bytes(UNIT * _units(bits.bit_length()), "little"))

    def _add_bits(self, seq: int, bits: bytes) -> None:
        self._bits[seq] = bits
        self.size_bytes += SET_BYTES + len(bits)

    def find(self, seq: int) -> list[int] | None:
        """The set of one event; None if it has none."""
        kept = self._bits.get(seq)
        if kept is None:
            return None
        bits = int.from_bytes(kept, "little")
        return [each for each in range(bits.bit_length()) if bits >> each & 1]

    def renumbered(self, seqs: Mapping[int, int]) -> KeptSets:
        """The sets of the events in `seqs`, under the numbers that these have there."""
        chosen = KeptSets()
        for seq, bits in self._bits.items():
            if seq in seqs:
                chosen._add_bits(seqs[seq], bits)
        return chosen

    def tobytes(self) -> bytes:
        return b"".join(
            [struct.pack("<qq", seq, len(bits) // UNIT) + bits for seq, bits in self._bits.items()]
        )

    def read(self, kept: bytes) -> None:
        """Add what `tobytes` gave; ValueError if it did not."""
        at = 0
        while at < len(kept):
            if at + 2 * UNIT > len(kept):
                raise ValueError("a set of labels is cut off")
            seq, units = struct.unpack_from("<qq", kept, at)
            at += 2 * UNIT
            bits = kept[at : at + UNIT * units] if units >= 0 else b""
            if len(bits) != UNIT * units:
                raise ValueError("a set of labels is cut off")
            at += len(bits)
            self._add_bits(seq, bits)
