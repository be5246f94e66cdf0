"""Bad lines leave nothing behind that only a garbage collection can free: one of many objects holds everybody up."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.loop_pauses import in_loop

NDJSON = (b"content-type", b"application/x-ndjson")

BAD = {
    "not JSON": b"x\n",
    "another shape": b'{"a":1}\n',
    "no model": b'{"features":[1]}\n',
    "a bad name": b'{"model":"/","features":[1],"label":1}\n',
    "a bad example": b'{"model":"m","features":[1,2],"label":1}\n',
    "an unknown id": b'{"prediction_id":"x","label":1}\n',
}
LINES = 500


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
async def test_bad_lines_leave_no_garbage(tmp_path: Path) -> None:
    async with in_loop(tmp_path) as service:
        await service.post("/stream", [b'{"model":"m","features":[1],"label":1}\n'], NDJSON)
        for kind, line in BAD.items():
            gc.collect()
            status, told, _ = await service.post("/stream", [line * LINES], NDJSON)
            assert (status, told.count(b'"error"')) == (200, LINES), kind
            assert gc.collect() < LINES, kind
