"""The lines of a stream as they are read: into arrays where that can be, or by the decoder of all lines."""

import asyncio
import struct
from typing import Any

import pytest

from service.errors import NovikoffError
from service.web.http.responses import document_of
from service.web.stream import lines
from service.web.stream.array_lines import AlikeLines
from service.web.stream.line import WholeRounds
from service.web.stream.lines import Lines

LINE_BYTES_MAX = 2_000


def read(body: bytes, *, as_arrays: bool, sizes: list[int], with_simd: bool = True) -> list[Any]:
    """All lines of a body that comes in pieces of these sizes, or what is wrong with them."""
    pieces = []
    at = 0
    for size in sizes:
        pieces.append(body[at : at + size])
        at += size
    pieces.append(body[at:])

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def take_all() -> list[Any]:
        taken: list[Any] = []
        async with Lines(
            receive, None, line_bytes_max=LINE_BYTES_MAX, errors_max=1_000, streams_open=lambda: 1
        ) as incoming:
            while part := await incoming.take():
                taken += part.lines() if isinstance(part, WholeRounds) else part
        return taken

    with pytest.MonkeyPatch.context() as patch:
        if not as_arrays or not with_simd:
            patch.setattr(lines, "dense_lines", lambda data: None)
        if not as_arrays:
            patch.setattr(AlikeLines, "read", lambda self, data: None)
        return [told(line) for line in asyncio.run(take_all())]


def told(line: Any) -> Any:
    """All that is in a line, numbers as their bits and the types of labels too."""
    if isinstance(line, NovikoffError):
        return document_of(line)
    features = line.features
    if isinstance(features, list):
        assert all(type(number) is float for number in features)
        features = struct.pack(f"<{len(features)}d", *features)
    elif isinstance(features, dict):
        features = {
            name: float(value).hex() if type(value) in (int, float) else value
            for name, value in sorted(features.items())
        }
    return line.model, repr(features), line.prediction_id, type(line.label), line.label, line.id
