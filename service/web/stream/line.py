"""A line of a stream."""

import msgspec
import numpy as np

from novikoff.schemas import FeaturesSent, LabelSent


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
