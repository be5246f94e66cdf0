"""Many rounds in one request: what is sent, and how it is read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx
import msgspec

from service.answers import Label
from service.client.answers import Learned, Outcome, Prediction
from service.client.calls import Call, Features, Line, Streamed, encode, make_id, params_of
from service.client.problems import CutOff, Ended, refusal_of


@dataclass(frozen=True, slots=True)
class Stream(Call[list[Streamed]]):
    """Lines of rounds, answered line by line."""

    lines: int = 0
    """How many are sent, and have to be answered."""

    def read(self, response: httpx.Response) -> list[Streamed]:
        """An answer for each line, up to the one that has ended the stream; CutOff if there are fewer."""
        *whole, rest = response.content.split(b"\n")
        answers = [answer for line in whole if line for answer in _streamed(line)]
        if rest and not _is_cut(rest):
            answers += _streamed(rest)
        if len(answers) < self.lines and not (answers and isinstance(answers[-1], Ended)):
            raise CutOff(
                f"the answer to {self.method} {self.path} was cut off:"
                f" {len(answers):,} of {self.lines:,} lines were answered"
            )
        return answers


def stream(lines: list[Line], model: str | None) -> Stream:
    return Stream(
        "POST",
        "/stream",
        list,
        b"\n".join(map(encode, lines)),
        params_of(model=model),
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
        return [refusal_of(fields["error"], is_last=fields.get("ended", False))] * fields.get("lines", 1)
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
