"""What comes and goes line by line: rounds of a stream, rounds of the past, frames of the feed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx
import msgspec

from novikoff.calls import Call, Features, encode, make_id
from novikoff.errors import CutOff, Ended, Problem, Refused
from novikoff.http1 import Response
from novikoff.schemas import Frame, Label, Learned, Outcome, Prediction

Line = Mapping[str, Any]
"""`features` (predict), `prediction_id` and `label` (reveal), or `features` and `label` (a whole round)."""

Streamed = Prediction | Outcome | Refused
"""The answer to a line."""

CHUNK_LINES = 250
"""Lines in one request: few enough that the first answers come soon, since `Client` reads none before all is sent."""

FEED_SILENCE_SECONDS_MAX = 60.0
"""A feed in which nothing changes says every 15 seconds that it is still there."""


@dataclass(frozen=True, slots=True)
class Stream(Call[list[Streamed]]):
    """Lines of rounds, answered line by line."""

    lines: int = 0
    """How many are sent, and have to be answered."""

    def _read(self, response: httpx.Response | Response) -> list[Streamed]:
        """An answer for each line, up to the one that has ended the stream; CutOff if there are fewer."""
        *whole, rest = response.content.split(b"\n")
        answers = [answer for line in whole if line for answer in _streamed(line)]
        if rest and not _is_cut(rest):
            answers += _streamed(rest)
        if len(answers) < self.lines and not (answers and isinstance(answers[-1], Ended)):
            raise CutOff(
                f"the answer to {self.method} {self.path} was cut off:"
                f" {len(answers):,} of {self.lines:,} lines have a response"
            )
        return answers


def stream(lines: list[Line], model: str | None) -> Stream:
    return Stream(
        "POST",
        "/stream",
        list,
        b"\n".join(map(encode, lines)),
        {"model": model},
        repeatable=all(line.get("id") or line.get("prediction_id") for line in lines),
        media_type="application/x-ndjson",
        lines=len(lines),
    )


def _is_cut(rest: bytes) -> bool:
    """Whether what stands behind the last end of a line is the beginning of an answer.

    >>> _is_cut(b'{"label": 1, "sc'), _is_cut(b'{"label": 1}'), _is_cut(b"<html>")
    (True, False, False)
    """
    try:
        msgspec.json.decode(rest)
    except msgspec.DecodeError:
        return rest.startswith(b"{")
    return False


def _streamed(line: bytes) -> list[Streamed]:
    """The answer to a line; Refused, returned and not raised, if the line was bad.

    Past `stream_errors_max` one answer stands for all bad lines that stand together.

    >>> _streamed(b'{"error": {"code": "unknown-label", "status": 422, "detail": "no such label"}, "lines": 2}')
    [Refused('no such label'), Refused('no such label')]
    """
    fields = msgspec.json.decode(line, type=dict[str, Any])
    if "error" in fields:
        problem = msgspec.convert(fields["error"], Problem)
        kind = Ended if fields.get("ended") else Refused
        return [kind(problem.code, problem.status, problem.detail, problem.errors)] * fields.get("lines", 1)
    if "mistake" not in fields:
        return [msgspec.convert(fields, Prediction)]
    return [msgspec.convert(fields, Learned if "score" in fields else Outcome)]


def whole_rounds(examples: Iterable[tuple[Features, Label]], *, safe: bool) -> Iterator[Line]:
    """Lines for whole rounds; with `safe`, each has an id, so that it can be repeated without being learned twice."""
    for features, label in examples:
        line = {"features": features, "label": label}
        yield {**line, "id": make_id()} if safe else line


def chunks(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    """
    >>> [len(chunk) for chunk in chunks([{}] * 5, 2)]
    [2, 2, 1]
    """
    rest = iter(lines)
    while chunk := list(islice(rest, size)):
        yield chunk


class Lines:
    """Lines out of parts that end anywhere.

    >>> lines = Lines()
    >>> lines.complete(b"one\\ntw"), lines.complete(b"o\\n")
    ([b'one'], [b'two'])
    """

    def __init__(self, end: bytes = b"\n") -> None:
        self._end = end
        self._rest = b""

    def complete(self, part: bytes) -> list[bytes]:
        *whole, self._rest = (self._rest + part).split(self._end)
        return whole

    def check_end(self, request: str) -> None:
        """CutOff if the answer ended amid a line, which some proxies pass on as a whole one."""
        if self._rest:
            raise CutOff(f"the answer to {request} was cut off within a line")


FRAME_END = b"\n\n"


def frame_of(event: bytes) -> Frame | None:
    """A frame of the feed out of a Server-Sent Event; None if it has no data.

    >>> frame_of(b'id: a-1\\nevent: snapshot\\ndata: {"deleted":[]}'), frame_of(b": still here")
    (Frame(kind='snapshot', id='a-1', data={'deleted': []}), None)
    """
    fields = {name: value for name, _, value in (line.partition(b": ") for line in event.split(b"\n"))}
    if b"data" not in fields:
        return None
    data = msgspec.json.decode(fields[b"data"], type=dict[str, Any])
    return Frame(fields.get(b"event", b"").decode(), fields.get(b"id", b"").decode(), data)
