"""Weights and exports of large models come in slices: never a whole text in memory, and the loop has its turns."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from service.web.routes.exports import largest_in
from tests.support.loop_pauses import Turns, in_loop, shortest_pause
from tests.support.process_usage import peak_bytes, restart_peak
from tests.support.service_process import Service

MEBIBYTE = 1_048_576


def test_the_weights_of_many_slots_take_little_memory(start: Callable[..., Service]) -> None:
    service = start()
    service.create("wide", features={"kind": "hashed", "bits": 23})
    service.learn("wide", {"word": 1.0}, -1)
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    read = 0
    with service.client.stream("GET", "/models/wide/weights") as answer:
        for part in answer.iter_bytes():
            read += len(part)
    assert read > 4 * 2**23
    # It was 400 MB: a list of all of them and its text.
    assert peak_bytes(service.process.pid) - before < 100 * MEBIBYTE
    (row,) = service.get("/models/wide/weights?largest=3")["classes"]
    assert [abs(weight["weight"]) for weight in row["weights"]] == [1.0, 0.0, 0.0]


def test_what_comes_in_slices_is_what_it_would_be_at_once(start: Callable[..., Service]) -> None:
    service = start()
    for name, dimension in (("small", 50), ("large", 46_000)):
        labels = ["a", "b", "c"]
        service.create(name, labels=labels, features={"kind": "dense", "dimension": dimension})
        numbers = np.random.default_rng(1).normal(size=dimension).round(6).tolist()
        for label in labels:
            service.learn(name, numbers, label)
        weights = service.get(f"/models/{name}/weights")
        assert [len(row["weights"]) for row in weights["classes"]] == [len(numbers)] * 3
        export = service.get(f"/models/{name}/export")
        assert service.client.put(f"/models/{name}-twin", json=export).status_code == 201
        twin = service.get(f"/models/{name}-twin/weights")
        assert twin["classes"] == weights["classes"]
        service.assert_replay_equals_live(name)


async def test_the_loop_has_its_turns_while_weights_are_sent(tmp_path: Path) -> None:
    async with in_loop(tmp_path) as service:
        sent: list[int] = []

        async def ask(method: str, path: str, body: object = None) -> Turns:
            content = b"" if body is None else json.dumps(body).encode()
            messages = iter([{"type": "http.request", "body": content, "more_body": False}])

            async def receive() -> object:
                return next(messages, None) or await asyncio.Event().wait()

            async def send(message: dict[str, bytes]) -> None:
                sent.append(len(message.get("body", b"")))

            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
            scope = {
                "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
                "query_string": b"", "headers": headers if content else [], "client": ("127.0.0.1", 1),
            }  # fmt: skip
            turns = Turns()
            watching = asyncio.create_task(turns.watch())
            await service._app(scope, receive, send)  # type: ignore[arg-type]
            watching.cancel()
            return turns

        async def asked(_: int) -> Turns:
            sent.clear()
            turns = await ask("GET", "/models/wide/weights")
            assert sum(sent) > 4 * 2**22 and max(sent) < MEBIBYTE
            return turns

        await ask("POST", "/models", {"model": "wide", "features": {"kind": "hashed", "bits": 22}})
        assert await shortest_pause(asked, 0.2) < 0.2, "it was half a second, in one piece"


@pytest.mark.thorough
async def test_the_loop_has_its_turns_while_the_largest_weights_of_many_classes_are_told(
    tmp_path: Path,
) -> None:
    labels = [f"c{number}" for number in range(200)]
    numbers = np.random.default_rng(1).normal(size=4_000)
    async with in_loop(tmp_path) as service:
        settings = {"model": "m", "labels": labels, "features": {"dimension": 4_000}}
        status, *_ = await service.post("/models", [json.dumps(settings).encode()], JSON_BODY)
        assert status == 201
        lines = [
            json.dumps({"features": numbers.round(3).tolist(), "label": label}) + "\n" for label in labels
        ]
        status, *_ = await service.post(
            "/stream", [line.encode() for line in lines], NDJSON_BODY, query="model=m"
        )
        assert status == 200

        async def asked(_: int) -> Turns:
            turns = Turns()
            watching = asyncio.create_task(turns.watch())
            await asyncio.sleep(0)
            content = await service.get("/models/m/weights", "largest=1000")
            await asyncio.sleep(0)  # or what was done in one piece would not be seen
            watching.cancel()
            told = json.loads(content)
            assert [len(row["weights"]) for row in told["classes"]] == [1_000] * len(labels)
            return turns

        assert await shortest_pause(asked, 0.05) < 0.05, "it was a seventh of a second, in one piece"


JSON_BODY, NDJSON_BODY = (b"content-type", b"application/json"), (b"content-type", b"application/x-ndjson")


@pytest.mark.parametrize("count", [1, 3, 10, 400])
def test_the_largest_weights_are_those_of_a_stable_sort(count: int) -> None:
    row = np.random.default_rng(count).integers(-3, 4, size=300).astype(np.float64)
    row[50:200] = 0.0
    assert largest_in(row, count).tolist() == np.argsort(-np.abs(row), kind="stable")[:count].tolist()
