"""A stream under load: it is slowed down, and if it must be refused, it ends there and nothing after it is learned."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from novikoff import Client, Ended
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

Start = Callable[..., Service]

NDJSON = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
LEARN = {"features": [1.0, -0.5], "label": 1}


def streamed(service: Service, lines: list[dict[str, Any]], query: str = "") -> list[dict[str, Any]]:
    body = "\n".join(map(json.dumps, lines))
    answer = service.client.post(f"/stream{query}", content=body, headers=NDJSON)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_lines_wait_for_room_in_the_queue(start: Start) -> None:
    """Each chunk has more events than may wait."""
    service = start(queue_events_max=1)
    lines = [{"model": f"m{i % 7}", **LEARN} for i in range(3_000)]
    answers = streamed(service, lines)
    assert not [answer for answer in answers if "error" in answer]
    assert [answer["rounds"] for answer in answers] == [i // 7 + 1 for i in range(3_000)]
    for model in range(7):
        service.assert_replay_equals_live(f"m{model}")


@pytest.mark.thorough
def test_lines_of_all_kinds_wait_while_others_are_refused(start: Start) -> None:
    service = start(queue_events_max=2)
    service.create("m")
    over = Event()

    def press() -> None:
        with Client(service.url, retry_seconds=0) as client:
            while not over.is_set():
                try:
                    client.learn("other", [1.0], 1)
                except Exception:
                    over.wait(0.02)  # whoever is refused comes again, and not at once

    others = [Thread(target=press) for _ in range(6)]
    for other in others:
        other.start()
    lines = [
        line
        for i in range(150)
        for line in (
            {"id": f"p{i}", "features": [1.0, float(i)]},
            {"prediction_id": f"p{i}", "label": 1 if i % 2 else -1},
            {"id": f"w{i}", **LEARN},
            LEARN,
            {"model": f"m{i % 5}", **LEARN},
        )
    ]
    try:
        answers = streamed(service, lines, "?model=m")
    finally:
        over.set()
        for other in others:
            other.join()
    assert not [answer for answer in answers if "error" in answer]
    assert len(answers) == len(lines)
    service.assert_replay_equals_live("m")


def test_columns_wait_too(start: Start) -> None:
    service = start(queue_events_max=1)
    features = pa.FixedSizeListArray.from_arrays(pa.array([1.0, -0.5] * 10_000), 2)
    batch = pa.record_batch([features, pa.array([1] * 10_000)], names=["features", "label"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    answer = service.client.post("/stream?model=m", content=body, headers=ARROW)
    assert answer.status_code == 200, answer.text
    assert answer.json()["revealed"] == 10_000


@contextmanager
def stuck(service: Service) -> Iterator[None]:
    """A journal that does not move, with as many events waiting for it as may."""
    writer = service.writer_pid
    body = {"model": "other", **LEARN}
    filling = Thread(target=service.client.post, args=("/learn",), kwargs={"json": body})
    os.kill(writer, signal.SIGSTOP)
    try:
        filling.start()
        waiting = "novikoff_journal_queue_events 1"
        eventually(lambda: waiting in service.client.get("/metrics").text, otherwise="nothing waits")
        yield
    finally:
        os.kill(writer, signal.SIGCONT)
        filling.join()


@pytest.mark.parametrize("answers", ["all", "summary"])
def test_without_room_for_long_a_stream_ends_and_no_later_line_is_learned(start: Start, answers: str) -> None:
    service = start(queue_events_max=1)
    for model in ("m", "n", "other"):
        service.learn(model, LEARN["features"], 1)
    lines = [{"features": [1.0]}, {"model": "n", **LEARN}, LEARN, {"id": "p", "features": [1.0, 2.0]}, LEARN]
    with stuck(service):
        *told, last = streamed(service, lines, f"?model=m&answers={answers}")
    ended = last["error"] if answers == "all" else last["ended"]
    assert ended["code"] == "overloaded" and "1 lines were accepted, and no more" in ended["detail"]
    if answers == "all":
        assert last["ended"] is True
        assert [answer["error"]["code"] for answer in told] == ["invalid-request"]
    else:
        assert last["lines"] == last["errors"] == 1 and last["revealed"] == 0
    for model in ("m", "n"):
        assert service.stats(model)["rounds"]["revealed"] == 1
        service.assert_replay_equals_live(model)


def test_the_client_raises_when_a_stream_is_ended(start: Start) -> None:
    service = start(queue_events_max=1)
    service.learn("m", LEARN["features"], 1)
    service.learn("other", LEARN["features"], 1)
    with (
        Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client,
        stuck(service),
        pytest.raises(Ended, match="no more"),
    ):
        client.stream([LEARN] * 1_000, model="m")
    assert service.stats("m")["rounds"]["revealed"] == 1
