"""How far the lines of a stream are read ahead: the less, the more streams there are."""

from typing import Any

import pytest

from service.web.stream.lines import AHEAD_BYTES_MAX, AHEAD_LINES_MAX, AT_ONCE_BYTES, Lines

LINE = b'{"features": [' + b", ".join([b"0.12345678901234567"] * 64) + b'], "label": 1}\n'
LINES = 4 * AHEAD_LINES_MAX


async def most_taken_at_once(streams_open: int) -> tuple[int, int]:
    """Of a body that is here at once: how many lines are taken at most at a time, and in all."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": LINE * LINES, "more_body": False}

    incoming = Lines(
        receive, None, line_bytes_max=65_536, errors_max=1_000, streams_open=lambda: streams_open
    )
    most = total = 0
    async with incoming:
        while part := await incoming.take():
            most, total = max(most, len(part)), total + len(part)
    return most, total


@pytest.mark.parametrize("streams_open", [1, 32])
async def test_streams_share_what_may_wait(streams_open: int) -> None:
    most, total = await most_taken_at_once(streams_open)
    assert total == LINES
    lines_at_once = AT_ONCE_BYTES // len(LINE)
    # A list of 64 numbers waits as 512 bytes, or as twice its text where no extra reads it into an array.
    expected = [
        min(AHEAD_LINES_MAX, AHEAD_BYTES_MAX // streams_open // size) for size in (512, 2 * len(LINE))
    ]
    assert most <= max(expected) + lines_at_once
    assert most >= min(expected)


async def test_the_bound_is_of_all_streams_together() -> None:
    alone, _ = await most_taken_at_once(1)
    among_many, _ = await most_taken_at_once(100)
    assert among_many < alone / 4
