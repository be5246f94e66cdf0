"""A line of a stream, and lines that are whole rounds of one model, their features in one array."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from novikoff.schemas import FeaturesSent, LabelSent
from service.learning.vectors import Rows


class Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Features: predict. A prediction_id and a label: reveal. Features and a label: a whole round."""

    model: str | None = None
    features: FeaturesSent | None = None
    prediction_id: str | None = None
    label: LabelSent | None = None
    id: str | None = None
    weight: float | None = None
    tag: str | None = None


decoder = msgspec.json.Decoder(Line)


def lines_in(data: bytes) -> int:
    """How many lines there are, the last one without an end."""
    ends = np.frombuffer(data, np.uint8) == ord("\n")
    return int(np.count_nonzero(ends)) + 1  # five times as fast as data.count


@dataclass(frozen=True, slots=True)
class WholeRounds:
    """Rounds of one model, that of the stream if it is None: a row of features, as they were sent, for each label."""

    model: str | None
    rows: Rows
    labels: list[LabelSent]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, end: int) -> "WholeRounds":
        """The rounds from one place to another."""
        if start == 0 and end >= len(self):
            return self
        rows = Rows(self.rows.values[start:end], self.rows.names)
        return WholeRounds(self.model, rows, self.labels[start:end])

    def lines(self) -> list[Line]:
        """The same one by one."""
        sent = zip(one_by_one(self.rows), self.labels, strict=True)
        return [Line(self.model, features, None, label) for features, label in sent]


def one_by_one(rows: Rows) -> list[FeaturesSent]:
    """Features as they are in lines.

    >>> one_by_one(Rows(np.array([[1.0, 2.0]]))), one_by_one(Rows(np.array([[1.0, 2.0]]), ["b", "a"]))
    ([[1.0, 2.0]], [{'b': 1.0, 'a': 2.0}])
    """
    if rows.names is None:
        return [*rows.values.tolist()]
    return [dict(zip(rows.names, values, strict=True)) for values in rows.values.tolist()]


def together(parts: Sequence[WholeRounds]) -> WholeRounds | None:
    """All of them as one, if they have the same model and the same features."""
    first = parts[0]
    width = first.rows.values.shape[1]
    for part in parts[1:]:
        its = part.rows
        if part.model != first.model or its.names != first.rows.names or its.values.shape[1] != width:
            return None
    if len(parts) == 1:
        return first
    values = np.concatenate([part.rows.values for part in parts])
    labels = [label for part in parts for label in part.labels]
    return WholeRounds(first.model, Rows(values, first.rows.names), labels)
