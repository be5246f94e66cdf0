"""Decodes lines that are whole rounds into one array, without a Python object for each number.

Of dense lines, simdjson parses the numbers, and the decoder in `line.py` what stands around them. Other lines that look
like those before are decoded by a msgspec struct that fits no others: with a list of numbers, or with a field for each
name, which takes half the time. If any line does not fit, the decoder in `line.py` reads all of them, so the result is
the same.
"""

from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from novikoff.schemas import LabelSent
from service.engine.decoding import UNDECODABLE
from service.learning.features.rows import rows_of_lists
from service.learning.vectors import LARGEST, Array, Rows, all_within
from service.web.stream.line import Line, WholeRounds, decoder, lines_in

try:
    import simdjson
except ImportError:  # the extra `simd`: without it lines take longer
    simdjson = None  # type: ignore[assignment]

BYTES_MAX = 131_072
"""The parser keeps 14 times as much memory as the most that it has read at once."""

TAILS_MAX = 64
"""Different texts after the numbers, such as `],"label":1}`; with more, there is more than a label in them."""

CACHED_BYTES_MAX = 1_024
"""How long the texts around the numbers may be, all together, for what they say to be cached."""

BETWEEN = 1.7e308
"""Separates the numbers of two lines in the document that simdjson parses: no feature is as large."""

_SEPARATOR = b",%r," % BETWEEN
_END = b",%r]" % BETWEEN

_parser = simdjson.Parser() if simdjson is not None else None


def dense_lines(data: bytes) -> WholeRounds | None:
    """The lines if all of them begin alike and are whole rounds; None leaves them to the other decoder."""
    start = data.find(b"[") + 1
    if _parser is None or not start or len(data) > BYTES_MAX:
        return None
    head = data[:start]
    lines = BytesIO(data).readlines()  # finds line ends faster than split
    ends = [line.rfind(b"]") for line in lines]
    if {line[:start] for line in lines} != {head} or min(ends) < start:
        return None
    tails = [line[end:] for line, end in zip(lines, ends, strict=True)]
    fields = _known_fields(head, frozenset(tails))
    if fields is None:
        return None
    features = _numbers([line[start:end] for line, end in zip(lines, ends, strict=True)])
    if features is None:
        return None
    model, labels = fields
    return WholeRounds(model, Rows(features), list(map(labels.__getitem__, tails)))


Fields = tuple[str | None, dict[bytes, LabelSent]] | None


def _known_fields(head: bytes, tails: frozenset[bytes]) -> Fields:
    """What `_fields` says; of short texts it is cached, since all parts of a stream have the same."""
    is_short = len(head) + sum(map(len, tails)) <= CACHED_BYTES_MAX
    return _cached_fields(head, tails) if is_short else _fields(head, tails)


def _fields(head: bytes, tails: frozenset[bytes]) -> Fields:
    """The model and the label for each end of a line; None if there are other fields beside features.

    Between a line's first `[` and its last `]`, and there alone, a list can stand. So if the decoder finds no
    features in a line that is left empty there, all that it finds in the whole line is the numbers more.

    >>> _fields(b'{"features":[', frozenset({b'],"label":1}', b'],"label":"a"}'}))
    (None, {b'],"label":"a"}': 'a', b'],"label":1}': 1})
    """
    if len(tails) > TAILS_MAX:
        return None
    labels: dict[bytes, LabelSent] = {}
    models = set()
    for tail in sorted(tails):
        try:
            line = decoder.decode(head + tail)
        except UNDECODABLE:
            return None
        others = {line.id, line.prediction_id, line.weight, line.tag}
        if line.features != [] or line.label is None or others != {None}:
            return None
        models.add(line.model)
        labels[tail] = line.label
    return (models.pop(), labels) if len(models) == 1 else None


_cached_fields = lru_cache(maxsize=64)(_fields)


def _numbers(texts: list[bytes]) -> Array | None:
    """Lists of equally many numbers as rows; None if one of them is something else, or too large. Changes `texts`.

    >>> _numbers([b"1,2.5", b" -0.0 , 1e2"]).tolist()
    [[1.0, 2.5], [-0.0, 100.0]]
    >>> _numbers([b"1,2", b"3"]), _numbers([b"1", b"[2]"]), _numbers([b"1", b"null"]), _numbers([b"1", b""])
    (None, None, None, None)
    """
    texts[0] = b"[" + texts[0]
    texts[-1] += _END
    document = _SEPARATOR.join(texts)
    if document.find(b"[", 1) > 0:  # lists in lists would be flattened
        return None
    try:
        read = np.frombuffer(_parser.parse(document).as_buffer(of_type="d"))  # type: ignore[union-attr]
    except (ValueError, TypeError, RuntimeError):
        return None
    if read.size % len(texts):
        return None
    rows = read.reshape(len(texts), -1)
    features = np.ascontiguousarray(rows[:, :-1])
    # What stands between is where it would be after equally many numbers, and nowhere else.
    if np.count_nonzero(rows[:, -1] != BETWEEN) or not all_within(features, LARGEST):
        return None
    return features


NAMES_MAX = 1_024
TRIES_MAX = 8
"""How often a decoder is chosen for one stream: to make one for names takes as long as decoding twenty lines."""


class _DenseLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    features: list[float]
    label: LabelSent
    model: str | None = None


_dense_decoder = msgspec.json.Decoder(_DenseLine)


class AlikeLines:
    """The decoder for the features of one stream. Show it decoded lines with `expect`, then try `read` first."""

    def __init__(self) -> None:
        self._names: list[str] | None = None
        self._decode: Callable[[bytes], list[Any]] | None = None
        self._tries = TRIES_MAX

    def expect(self, lines: list[Line]) -> None:
        """Choose the decoder for lines like the first and the last of these, if their features are numbers alone."""
        first, last = lines[0].features, lines[-1].features
        if self._decode is not None or not self._tries or not first or type(first) is not type(last):
            return
        if isinstance(first, list):
            self._names, self._decode = None, _dense_decoder.decode_lines
        else:
            names = list(first)
            if list(last or ()) != names or len(names) > NAMES_MAX:
                return
            if not all(type(value) in (int, float) for value in first.values()):
                return
            self._names, self._decode = names, _decoder_of(names)
        self._tries -= 1

    def read(self, data: bytes) -> WholeRounds | None:
        """The lines if all are whole rounds of one model with such features; None leaves them to the other decoder."""
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
        features = [line.features for line in lines]
        if self._names is None:
            read = rows_of_lists(features, len(features[0]))
        else:
            read = rows_of_lists(list(map(astuple, features)), len(self._names))
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
