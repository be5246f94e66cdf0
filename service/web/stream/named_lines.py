"""Decodes lines whose features have the same names in the same order, without a dictionary for each line.

Once some lines have shown the names, a msgspec struct with a field for each of them is made, and later lines are
decoded with that, which takes half the time. A line that does not fit is left to the decoder in `line.py`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import astuple

from novikoff.schemas import LabelSent
from service.engine.decoding import UNDECODABLE
from service.learning.features.rows import rows_of_lists
from service.learning.vectors import Rows
from service.web.stream.line import Line, lines_in
from service.web.stream.whole_rounds import WholeRounds

NAMES_MAX = 1_024
TRIES_MAX = 8
"""How many decoders are made for one stream: making one takes as long as decoding twenty lines."""


class NamedLines:
    """The decoder for the names of one stream. Show it decoded lines with `expect`, then try `read` first."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._decode: Callable[[bytes], list[Any]] | None = None
        self._tries = TRIES_MAX

    def expect(self, lines: list[Line]) -> None:
        """Make a decoder for the names of these lines if the first and the last have the same ones, all numbers."""
        first, last = lines[0].features, lines[-1].features
        if self._decode is not None or not self._tries or not isinstance(first, dict):
            return
        names = list(first)
        if not isinstance(last, dict) or list(last) != names or not 0 < len(names) <= NAMES_MAX:
            return
        if not all(type(value) in (int, float) for value in first.values()):
            return
        self._tries -= 1
        self._names = names
        self._decode = _decoder_of(names)

    def read(self, data: bytes) -> WholeRounds | None:
        """The lines if all are whole rounds of one model with these names; None leaves them to the other decoder."""
        if self._decode is None:
            return None
        try:
            lines = self._decode(data)
        except UNDECODABLE:
            self._decode = None
            return None
        models = {line.model for line in lines}
        if len(models) != 1 or lines_in(data) != len(lines):
            return None
        read = rows_of_lists([astuple(line.features) for line in lines], len(self._names))
        if read is None:
            return None
        return WholeRounds(models.pop(), Rows(read.values, self._names), [line.label for line in lines])


def _decoder_of(names: list[str]) -> Callable[[bytes], list[Any]] | None:
    """A decoder of lines with a label, maybe a model, and a number for each of these names."""
    fields = [(f"of_{at}", float, msgspec.field(name=name)) for at, name in enumerate(names)]
    try:
        features = msgspec.defstruct("Features", fields, forbid_unknown_fields=True, gc=False)
    except ValueError:  # a name that JSON has to escape
        return None
    line = msgspec.defstruct(
        "NamedLine",
        [("features", features), ("label", LabelSent), ("model", str | None, None)],
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(line).decode_lines
