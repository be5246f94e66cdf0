"""Everything that grows has a limit: at the limit it works, one past it there is a clear error."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from typing import Any

import httpx
import pytest

from tests.support.raw_http import read_until
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.raw import HOST, connect

Start = Callable[..., Service]

NDJSON = {"content-type": "application/x-ndjson"}


def padded(body: dict[str, Any], size: int) -> bytes:
    content = json.dumps(body).encode()
    return content + b" " * (size - len(content))


def lines_of(service: Service, content: bytes, query: str = "") -> list[dict[str, Any]]:
    answer = service.client.post(f"/stream{query}", content=content, headers=NDJSON)
    return [json.loads(line) for line in answer.text.splitlines()]


# What is sent


@pytest.mark.parametrize("path", ["/predict", "/learn", "/models", "/models/m/predict"])
def test_a_body(start: Start, path: str) -> None:
    service = start(body_bytes_max=1_000)
    body: dict[str, Any] = {"model": "m"}
    if path != "/models":
        body["features"] = [1.0]
    if path == "/learn":
        body["label"] = 1
    json_type = {"content-type": "application/json"}
    assert service.client.post(path, content=padded(body, 1_000), headers=json_type).is_success
    refused = service.client.post(path, content=padded(body, 1_001), headers=json_type)
    assert problem_of(refused) == (413, "body-too-large")


def test_an_upload(start: Start) -> None:
    service = start(upload_bytes_max=20_000, body_bytes_max=300)
    service.learn("m", [1.0], 1)
    exported = json.dumps(service.get("/models/m/export")).encode()
    json_type = {"content-type": "application/json"}
    padding = b" " * (20_000 - len(exported))
    assert service.client.put("/models/a", content=exported + padding, headers=json_type).status_code == 201
    refused = service.client.put("/models/b", content=exported + padding + b" ", headers=json_type)
    assert problem_of(refused) == (413, "body-too-large")


def test_a_line_of_a_stream(start: Start) -> None:
    service = start(line_bytes_max=500)
    line = {"model": "m", "features": [1.0], "label": 1}
    content = b"\n".join((padded(line, 500), padded(line, 501), padded(line, 100)))
    good, refused, also_good = lines_of(service, content)
    assert good["rounds"] == 1 and also_good["rounds"] == 2
    assert refused["error"]["code"] == "body-too-large"


@pytest.mark.parametrize("path", ["/predict", "/learn"])
def test_items(start: Start, path: str) -> None:
    service = start(items_max=3)
    item = {"model": "m", "features": [1.0]} | ({"label": 1} if path == "/learn" else {})
    assert len(service.post(path, {"items": [item] * 3})["items"]) == 3
    refused = service.client.post(path, json={"items": [item] * 4})
    assert problem_of(refused) == (422, "invalid-request") and refused.json()["errors"][0]["field"] == "items"


def test_features_of_an_example(start: Start) -> None:
    service = start(features_max=3)
    service.predict("dense", [1.0] * 3)
    assert service.refused("/predict", {"model": "longer", "features": [1.0] * 4}) == (422, "invalid-request")
    service.predict("named", {str(i): 1.0 for i in range(3)})
    too_many = {str(i): 1.0 for i in range(4)}
    assert service.refused("/learn", {"model": "named", "features": too_many, "label": 1})[0] == 422
    good, refused = lines_of(
        service, b'{"features": [1, 2, 3], "label": 1}\n{"features": [1, 2, 3, 4], "label": 1}', "?model=s"
    )
    assert good["rounds"] == 1 and refused["error"]["code"] == "invalid-request"


def test_the_value_of_a_feature(start: Start) -> None:
    service = start(feature_abs_max=10)
    service.predict("m", [10.0, -10.0])
    for value in (10.1, -10.1):
        assert service.refused("/predict", {"model": "m", "features": [0.0, value]}) == (
            422,
            "invalid-request",
        )


# What a model becomes


def test_names_that_a_model_learns(start: Start) -> None:
    service = start(names_max=3)
    service.create("m", features="named", bias=False)
    service.learn("m", {"a": 1.0, "b": 1.0}, 1)
    service.learn("m", {"c": 1.0, "d": 1.0}, -1)  # one too many: it is ignored, and counted
    features = service.stats("m")["features"]
    assert (features["weights"], features["ignored_names"]) == (3, 1)
    assert service.refused("/models", {"model": "x", "features": {"kind": "named", "names_max": 4}}) == (
        422, "invalid-request",
    )  # fmt: skip
    service.create("y", features={"kind": "named", "names_max": 3})


def test_classes(start: Start) -> None:
    service = start(classes_max=3)
    service.create("declared", labels=["a", "b", "c"])
    assert service.refused("/models", {"model": "x", "labels": ["a", "b", "c", "d"]}) == (
        422,
        "invalid-request",
    )
    service.create("appearing", labels=None)
    for label in ("a", "b", "c", "a"):
        service.learn("appearing", [1.0], label)
    fourth = {"model": "appearing", "features": [1.0], "label": "d"}
    assert service.refused("/learn", fourth) == (422, "unknown-label")
    assert lines_of(service, json.dumps(fourth).encode())[0]["error"]["code"] == "unknown-label"
    assert len(service.stats("appearing")["classes"]) == 3


def test_weights(start: Start) -> None:
    service = start(weights_max=1_024)
    service.create("m", features={"kind": "hashed", "bits": 10})
    too_many = {"model": "x", "features": {"kind": "hashed", "bits": 11}}
    assert service.refused("/models", too_many) == (422, "invalid-request")


# How many there are


def test_models(start: Start) -> None:
    service = start(models_max=3)
    service.predict("by-predicting", [1.0])
    service.create("by-making")
    exported = service.get("/models/by-making/export")
    assert service.client.put("/models/by-importing", json=exported).status_code == 201
    full = (409, "too-many-models")
    assert service.refused("/predict", {"model": "x", "features": [1.0]}) == full
    assert service.refused("/learn", {"model": "x", "features": [1.0], "label": 1}) == full
    assert service.refused("/models", {"model": "x"}) == full
    assert problem_of(service.client.put("/models/x", json=exported)) == full
    assert lines_of(service, b'{"model": "x", "features": [1], "label": 1}')[0]["error"]["code"] == full[1]
    # Those that are there work, and are told from those that are not.
    service.learn("by-making", [1.0], 1)
    assert service.refused("/models", {"model": "by-making"}) == (409, "model-exists")
    service.restart()
    assert service.refused("/predict", {"model": "x", "features": [1.0]}) == full
    assert service.client.delete("/models/by-importing").status_code == 204
    service.predict("x", [1.0])
    assert service.refused("/predict", {"model": "y", "features": [1.0]}) == full


def test_models_made_at_the_same_time(start: Start) -> None:
    service = start(models_max=5)

    async def crowd() -> list[int]:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            made = (client.post("/models", json={"model": f"m{i % 20}"}) for i in range(40))
            return [answer.status_code for answer in await asyncio.gather(*made)]

    assert sorted(asyncio.run(crowd())) == [201] * 5 + [409] * 35
    assert service.get("/stats")["totals"]["models"] == 5


def test_models_in_memory(start: Start) -> None:
    service = start(models_loaded_max=2)
    for i in range(5):
        service.learn(f"m{i}", [1.0], 1)
    for i in range(5):
        assert service.stats(f"m{i}")["rounds"]["revealed"] == 1
    asked = cycle(range(5))

    def are_two() -> bool:
        """As soon as others can give way to one that is loaded: not while the disk has still to take theirs."""
        service.stats(f"m{next(asked)}")
        return "\nnovikoff_models_loaded 2.0\n" in service.client.get("/metrics").text

    eventually(are_two)


def test_predictions_of_a_model_that_wait(start: Start) -> None:
    service = start(pending_max=3)
    ids = [service.predict("m", [1.0])["prediction_id"] for _ in range(4)]
    assert service.refused("/feedback", {"prediction_id": ids[0], "label": 1}) == (410, "prediction-expired")
    for prediction_id in ids[1:]:
        service.reveal(prediction_id, 1)


def test_predictions_that_wait_in_all(start: Start) -> None:
    service = start(pending_total_max=4, models_loaded_max=2)
    ids = {m: [service.predict(m, [1.0])["prediction_id"] for _ in range(2)] for m in ("a", "b")}
    # One that has some makes room with its own oldest.
    ids["b"].append(service.predict("b", [1.0])["prediction_id"])
    assert service.refused("/feedback", {"prediction_id": ids["b"][0], "label": 1})[0] == 410
    # One that has none takes the place of the oldest of all.
    ids["c"] = [service.predict("c", [1.0])["prediction_id"]]
    assert service.refused("/feedback", {"prediction_id": ids["a"][0], "label": 1})[0] == 410
    service.restart()
    ids["d"] = [service.predict("d", [1.0], id="x")["prediction_id"]]
    assert service.refused("/feedback", {"prediction_id": ids["a"][1], "label": 1})[0] == 410
    for prediction_id in (*ids["b"][1:], *ids["c"], *ids["d"]):
        service.reveal(prediction_id, 1)
    assert service.get("/stats")["totals"]["rounds"] == {
        "predicted": 7, "revealed": 4, "pending": 0, "expired": 3,
    }  # fmt: skip
    service.assert_replay_equals_live("a")


def test_streams(start: Start) -> None:
    service = start(streams_max=2)
    head = (
        b"POST /stream?model=m HTTP/1.1\r\n"
        + HOST
        + b"content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    line = b'{"features": [1.0], "label": 1}\n'
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(service)) for _ in range(2)]
        for connection in opened:
            connection.sendall(head + b"%x\r\n%s\r\n" % (len(line), line))
            assert b"200 OK" in connection.recv(65536)
        refused = service.client.post("/stream?model=m", content=line, headers=NDJSON)
        assert problem_of(refused) == (503, "overloaded") and refused.headers["retry-after"] == "1"
        opened[0].sendall(b"0\r\n\r\n")
        read_until(opened[0], b"0\r\n\r\n")
        eventually(
            lambda: service.client.post("/stream?model=m", content=line, headers=NDJSON).status_code == 200
        )


def test_feeds(start: Start) -> None:
    service = start(feeds_max=2)
    with ExitStack() as stack:
        feeds = [stack.enter_context(service.client.stream("GET", "/feed")).iter_lines() for _ in range(2)]
        assert [next(feed) for feed in feeds] == ["retry: 2000"] * 2
        assert problem_of(service.client.get("/feed")) == (503, "overloaded")


def test_feeds_opened_at_the_same_time(start: Start) -> None:
    service = start(feeds_max=3)
    service.learn("m", [1.0], 1)
    service.restart()  # now the model has to be read first, and they all wait for that together
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(service)) for _ in range(12)]
        for connection in connections:
            connection.sendall(b"GET /feed?model=m HTTP/1.1\r\n" + HOST + b"\r\n")
        first = [beginning(connection) for connection in connections]
    assert sum(b"retry: 2000" in each for each in first) == 3


def beginning(connection: socket.socket) -> bytes:
    """The head of an answer, and its body up to its first line or its end."""
    said = b""
    while not said.endswith((b"\n\n", b"0\r\n\r\n", b"}")) and b"retry" not in said:
        said += connection.recv(65536)
    return said


def test_jobs(start: Start) -> None:
    service = start(jobs_max=2)
    noise = [{"features": [1.0, float(i)], "label": 1 if i % 2 else -1} for i in range(2_000)]
    body = {"examples": noise, "passes_max": 1_000_000, "algorithm": "online"}  # it does not end by itself
    for i in range(3):
        service.create(f"m{i}")
    running = [service.post(f"/models/m{i}/fit", body)["id"] for i in range(2)]
    assert service.refused("/models/m2/fit", body) == (503, "overloaded")
    assert service.refused("/models/m0/fit", body) == (409, "job-running")
    for job in running:
        assert service.client.delete(f"/jobs/{job}").status_code == 200
    service.post("/models/m2/fit", body)
