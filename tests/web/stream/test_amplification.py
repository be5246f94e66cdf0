"""Streams that are small on the wire and large behind it: time, memory and answers stay in proportion."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from novikoff import Client, Refused
from tests.support.loop_pauses import Turns, in_loop, shortest_pause
from tests.support.process_usage import peak_bytes, restart_peak
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

Start = Callable[..., Service]

NDJSON = (b"content-type", b"application/x-ndjson")
GZIP = (b"content-encoding", b"gzip")
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
SENT_AS = {"content-type": "application/x-ndjson", "content-encoding": "gzip"}

PAUSE_SECONDS_MAX = 0.05
"""Work is done in slices of 10 ms; the CPU of a machine that others use is slower."""

MB = 1_000_000


def lines_of(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.splitlines()]


def counted(answers: list[dict[str, Any]]) -> int:
    """How many lines the answers stand for."""
    return sum(answer.get("lines", 1) for answer in answers)


HOSTILE = {
    "bad lines": b"1\n" * 100_000,
    "blank lines": b"\n" * 1_000_000,
    "lines of another shape": b'{"a":1}\n' * 20_000,
    "examples without a model": b'{"features":[1]}\n' * 20_000,
    "bad names": b'{"model":"/","features":[1]}\n' * 5_000,
    "labels that are none": b'{"model":"m","features":[1],"label":1.5}\n' * 20_000,
    "predictions": b'{"model":"m","features":[1]}\n' * 5_000,
    "unknown ids": b'{"prediction_id":"x","label":1}\n' * 1_000,
    "one very long line": b"1" * 3_000_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.thorough
async def test_the_loop_is_free_again_soon(kind: str, tmp_path: Path) -> None:
    body = gzip.compress(HOSTILE[kind])
    lines = HOSTILE[kind].count(b"\n") if kind != "blank lines" else 0

    async def sent(number: int) -> Turns:
        async with in_loop(tmp_path / str(number), inflated_ratio_max=2_000) as service:
            status, told, turns = await service.post("/stream", [body], NDJSON, GZIP)
        assert status == 200
        assert counted(lines_of(told)) == max(lines, kind == "one very long line")
        return turns

    assert await shortest_pause(sent, PAUSE_SECONDS_MAX) < PAUSE_SECONDS_MAX


@pytest.mark.parametrize("summary", [False, True])
def test_bad_lines_past_the_limit_are_summed_up(start: Start, summary: bool) -> None:
    service = start(stream_errors_max=5)
    good = b'{"model": "m", "features": [1.0], "label": 1}\n'
    body = b"x\n" * 3 + good + b"x\n" * 400 + good + b"x\n"
    query = "?answers=summary" if summary else ""
    answer = service.client.post(f"/stream{query}", content=body, headers=SENT_AS | {"content-encoding": ""})
    if summary:
        told = answer.json()
        assert (told["lines"], told["revealed"], told["errors"]) == (406, 2, 404)
        return
    answers = lines_of(answer.content)
    assert counted(answers) == 406
    # Five by themselves; of the others one line for all that stand together.
    assert [("error" in each, each.get("lines")) for each in answers] == [
        *[(True, None)] * 3, (False, None), (True, None), (True, None), (True, 398), (False, None), (True, 1),
    ]  # fmt: skip
    assert {each["error"]["code"] for each in answers if "error" in each} == {"malformed-json"}


def test_clients_get_an_answer_for_each_line_that_was_summed_up(start: Start) -> None:
    service = start(stream_errors_max=2)
    line = {"model": "m", "features": [1.0], "label": 1}
    bad = {"model": "m", "features": [1.0, 2.0], "label": 1}
    with Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client:
        answers = client.stream([line, *[bad] * 10, line])
    assert [isinstance(answer, Refused) for answer in answers] == [False, *[True] * 10, False]


def test_gzip_may_not_become_too_many_times_as_large(start: Start) -> None:
    service = start(inflated_ratio_max=50)
    line = b'{"model": "m", "features": [1.0, 2.0], "label": 1}\n'
    fits = gzip.compress(line * 5_000)  # 250 kB: small bodies are not looked at
    answer = service.client.post("/stream?answers=summary", content=fits, headers=SENT_AS)
    assert answer.json()["revealed"] == 5_000, answer.text
    bomb = gzip.compress(line * 400_000)
    answer = service.client.post("/stream?answers=summary", content=bomb, headers=SENT_AS)
    told = answer.json()
    assert told["ended"]["code"] == "body-too-large"
    assert "50 times" in told["ended"]["detail"]
    assert 5_000 <= told["revealed"] <= len(bomb) * 50 / len(line) + 10_000
    last = lines_of(service.client.post("/stream", content=bomb, headers=SENT_AS).content)[-1]
    assert last["ended"] and last["error"]["code"] == "body-too-large"


def test_gzip_may_not_become_too_large(start: Start) -> None:
    service = start(inflated_bytes_max=1_000_000)
    line = b'{"model": "m", "features": [1.0, 2.0], "label": 1}\n'
    rounds = 1_000_000 // len(line)
    for lines, ended in ((rounds, False), (3 * rounds, True)):
        body = gzip.compress(line * lines, 1)
        answer = service.client.post("/stream?answers=summary", content=body, headers=SENT_AS).json()
        assert ("ended" in answer) is ended, answer
        assert answer["revealed"] <= rounds
    assert "1000000 bytes" in answer["ended"]["detail"]


def test_the_ratio_counts_for_every_body(start: Start) -> None:
    service = start(inflated_ratio_max=50, body_bytes_max=10_000_000)
    body = json.dumps({"model": "m", "features": [0] * 60_000}).encode() + b" " * 5_000_000
    answer = service.client.post(
        "/predict",
        content=gzip.compress(body),
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert problem_of(answer) == (413, "body-too-large")


def arrow(rows: int, width: int, compression: str | None) -> bytes:
    values = pa.array(np.zeros(rows * width))
    batch = pa.record_batch(
        {
            "features": pa.FixedSizeListArray.from_arrays(values, width),
            "label": pa.array([1, -1] * (rows // 2)),
        }
    )
    body = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(body, batch.schema, options=options) as stream:
        stream.write(batch)
    return body.getvalue()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_may_be_compressed(service: Service, name: str, compression: str | None) -> None:
    body = arrow(5_000, 64, compression)
    answer = service.client.post(f"/stream?model={name}", content=body, headers=ARROW)
    assert answer.json()["revealed"] == 5_000, answer.text


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_counts_by_what_it_stands_for(start: Start, compression: str) -> None:
    service = start(upload_bytes_max=20 * MB)
    fits, too_large = arrow(10_000, 64, compression), arrow(1_000_000, 64, compression)
    assert len(too_large) < 5 * MB
    assert service.client.post("/stream?model=m", content=fits, headers=ARROW).status_code == 200
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    answer = service.client.post("/stream?model=m", content=too_large, headers=ARROW)
    assert problem_of(answer) == (413, "body-too-large")
    assert peak_bytes(service.process.pid) - before < 30 * MB


def test_small_bodies_take_little_memory(start: Start) -> None:
    """What 1 kB of gzip may become is learned, and memory stays where it is."""
    service = start()
    service.client.get("/livez")
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    for lines in (b"1\n", b"\n", b'{"features":[1]}\n', b'{"model":"m","features":[1],"label":1}\n'):
        body = gzip.compress(lines * (2 * MB // len(lines)))
        answer = service.client.post("/stream", content=body, headers=SENT_AS)
        assert answer.status_code == 200
        assert len(answer.content) < 8 * MB
    assert peak_bytes(service.process.pid) - before < 60 * MB
