"""The last reveals, for the margin that given weights have on them: a bounded window of examples.

The window holds at most 64 examples and 4 KB of float64: of each its features, one number more for its
label and length, and for sparse features as many again for their indices. An example that does not fit
alone empties it, so that it is always the latest part of the stream, without gaps.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from service.learning import saved

AnyArray = np.ndarray[Any, np.dtype[Any]]

WINDOW_BYTES = 4096
WINDOW_EXAMPLES = 64
NUMBER_BYTES = 8
# Little-endian whatever the machine, since the window is part of a snapshot.
NUMBER = np.dtype("<f8")
pack_number = struct.Struct("<d").pack
unpack_number = struct.Struct("<d").unpack_from


class Observed(bytearray):
    """The last examples revealed, as flat numbers: label * (length + 1), then the values, then any indices.

    It is the memory of these numbers itself: an array beside it would be as large as all the rest of a young model's
    bound.

    >>> window = Observed()
    >>> window.push(np.array([3.0, 4.0]), 1, None)
    >>> window.push(np.array([0.0, -2.0]), -1, None)
    >>> window.least(np.array([0.0, 2.0]), offset=1.0)
    3.0
    """

    __slots__ = ("examples", "per_feature")

    def __init__(self) -> None:
        super().__init__()
        self.examples = 0
        self.per_feature = 1

    def push(self, x: AnyArray, y: int, indices: AnyArray | None) -> None:
        """Let the oldest examples go until there is room, and add one, float64.

        With `indices`, x holds the values there and is 0 elsewhere. A change between dense and sparse starts
        the window afresh.
        """
        length = x.shape[0]
        per_feature = 1 if indices is None else 2
        if per_feature != self.per_feature:
            self.clear()
            self.examples, self.per_feature = 0, per_feature
        room = WINDOW_BYTES - NUMBER_BYTES * (1 + length * per_feature)
        while self.examples and (len(self) > room or self.examples == WINDOW_EXAMPLES):
            oldest = abs(int(unpack_number(self)[0])) - 1
            del self[: NUMBER_BYTES * (1 + oldest * per_feature)]
            self.examples -= 1
        if room < 0:
            return
        self += pack_number(y * (length + 1))
        self += x.astype(NUMBER, copy=False).tobytes()
        if indices is not None:
            # Indices of weights are far below 2^53: as float64 they are exact.
            self.extend(indices.astype(NUMBER).tobytes())
        self.examples += 1

    def push_all(self, rows: AnyArray, labels: AnyArray, indices: AnyArray | None) -> None:
        """Add examples as `push` would, one after the other; only the last ones can stay."""
        count, length = rows.shape
        size = NUMBER_BYTES * (1 + length * (1 if indices is None else 2))
        stay = min(WINDOW_EXAMPLES, WINDOW_BYTES // size)
        # With one more than can stay, none that was there before does.
        for at in range(max(0, count - stay - 1), count):
            self.push(rows[at], int(labels[at]), indices)

    def least(self, weights: AnyArray, offset: float) -> float | None:
        """The smallest y (weights·x + offset) in the window; None if it is empty.

        An example may have features beyond the weights, which were not learned yet: their weight is 0.
        """
        if not self.examples:
            return None
        numbers = bytes(self)
        width = abs(int(unpack_number(numbers)[0]))
        if self.per_feature == 1 and len(numbers) == NUMBER_BYTES * width * self.examples:
            rows = np.frombuffer(numbers, NUMBER).reshape(self.examples, width)
            heads = rows[:, 0]
            if width - 1 <= weights.size and (np.abs(heads) == width).all():
                # All of the same length, as dense examples are: no need to find each one's place.
                scores = np.add.reduce(rows[:, 1:] * weights[: width - 1], axis=1) + offset
                return float(np.minimum.reduce(np.where(heads > 0, scores, -scores)))
        labels, lengths, at = [], [], 0
        for _ in range(self.examples):
            head = int(unpack_number(numbers, NUMBER_BYTES * at)[0])
            labels.append(1 if head > 0 else -1)
            lengths.append(abs(head) - 1)
            at += 1 + lengths[-1] * self.per_feature
        every = np.frombuffer(numbers, NUMBER)
        length = np.array(lengths)
        size = 1 + length * self.per_feature
        # Each number's place in its example: 0 is the head, up to the length are values, then come indices.
        place = np.arange(at) - np.repeat(np.cumsum(size) - size, size)
        last_value = np.repeat(length, size)
        is_value = (place > 0) & (place <= last_value)
        index = place[is_value] - 1 if self.per_feature == 1 else every[place > last_value].astype(np.int64)
        weight = np.where(index < weights.size, weights.take(index, mode="clip"), 0.0)
        scores = np.zeros(self.examples)
        filled = length > 0
        if filled.any():
            starts = (np.cumsum(length) - length)[filled]
            scores[filled] = np.add.reduceat(every[is_value] * weight, starts)
        return float(np.minimum.reduce(np.array(labels) * (scores + offset)))

    def state(self) -> list[Any]:
        """Numbers and bytes that `restore` turns back into this."""
        return [self.examples, self.per_feature, bytes(self)]

    @classmethod
    def restore(cls, state: list[Any]) -> Observed:
        """What `state` was taken from."""
        observed = cls()
        examples, per_feature, numbers = saved.items(state, 3)
        observed.examples = saved.whole(examples, "[0]", WINDOW_EXAMPLES)
        observed.per_feature = saved.whole(per_feature, "[1]", 2, 1)
        observed.extend(saved.memory(numbers, "[2]", WINDOW_BYTES))
        return observed
