"""A model's rounds as data: what its clients sent and were told, in whatever form and however much of it."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.model_kinds import over_journals
from tests.support.process_usage import peak_bytes, read_bytes, restart_peak
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually
from tests.web.routes.test_past import streamed

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]


def history(service: Service, model: str, **query: Any) -> list[dict[str, Any]]:
    answer = service.client.get(f"/models/{model}/history", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.content.splitlines()]


def columns(service: Service, model: str, form: str, **query: Any) -> list[dict[str, Any]]:
    answer = service.client.get(f"/models/{model}/history", params={"format": form, **query})
    assert answer.status_code == 200, answer.text
    if form == "parquet":
        return pq.read_table(io.BytesIO(answer.content)).to_pylist()
    return pa.ipc.open_stream(answer.content).read_all().to_pylist()


@over_journals(
    "kind",
    ["perceptron", "arow-named", "appearing-classes", "averaged-sets"],
    on_cluster=["appearing-classes"],
)
def test_the_history_is_what_clients_sent_and_were_told(start: Start, name: str, kind: str) -> None:
    service = start(snapshot_every_events=9)
    stream, _ = streamed(service, name, kind, 40, seed=5)
    service.restart()
    lines = history(service, name)
    assert [line["version"] for line in lines] == sorted(line["version"] for line in stream.told)
    for line, told in zip(lines, stream.told, strict=True):
        assert {key: line[key] for key in told} == told
        assert line["predicted_at"] <= line["at"]
    as_columns = [columns(service, name, form) for form in ("arrow", "parquet")]
    assert as_columns[0] == as_columns[1]
    for row, line in zip(as_columns[0], lines, strict=True):
        features = dict(row["features"]) if isinstance(line["features"], dict) else row["features"]
        times = {key: datetime.fromisoformat(line[key]) for key in ("at", "predicted_at")}
        assert row | {"features": features} == line | times


def test_versions_and_times_choose(service: Service, name: str) -> None:
    for i in range(12):
        service.learn(name, [1.0, float(i)], 1 if i % 3 else -1)
    lines = history(service, name)
    assert [line["version"] for line in lines] == list(range(1, 13))
    assert history(service, name, from_version=4) == lines[3:]
    assert history(service, name, from_version=4, to_version=6) == lines[3:6]
    assert history(service, name, to_version=0) == []
    assert history(service, name, from_version=13) == []
    assert history(service, name, since=lines[5]["at"]) == lines[5:]
    assert history(service, name, until=lines[5]["at"]) == lines[:5]
    zoned = datetime.fromisoformat(lines[5]["at"]).astimezone(UTC).isoformat()
    assert history(service, name, since=zoned, until=lines[8]["at"], to_version=7) == lines[5:7]
    assert columns(service, name, "parquet", from_version=9) == columns(
        service, name, "arrow", from_version=9
    )
    assert len(columns(service, name, "arrow", from_version=9)) == 4


def test_a_model_without_rounds_has_an_empty_history(service: Service, name: str) -> None:
    service.create(name, labels=["no", "yes"])
    assert history(service, name) == []
    for form in ("arrow", "parquet"):
        assert columns(service, name, form) == []
    head = service.client.head(f"/models/{name}/history?format=parquet")
    assert (head.status_code, head.headers["content-type"]) == (200, "application/vnd.apache.parquet")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "csv"),
        ("from_version", "-1"),
        ("to_version", "x"),
        ("since", "yesterday"),
        ("since", "2026-01-31T12:00:00"),
        ("until", "0001-01-01T00:00:00+23:00"),
        ("until", "9999-12-31T23:59:59-23:00"),
        ("until", ""),
        ("limit", "5"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(service: Service, field: str, value: str) -> None:
    service.learn("history-bad", [1.0], 1)
    answer = service.client.get("/models/history-bad/history", params={field: value})
    assert problem_of(answer) == (422, "invalid-request")
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert problem_of(service.client.get("/models/no-such/history")) == (404, "unknown-model")


ROUNDS, WIDTH = 20_000, 64


@pytest.fixture
def filled(start: Start) -> Service:
    service = start()
    numbers = [float(i % 11) - 5.25 for i in range(WIDTH)]
    for start_at in range(0, ROUNDS, 1_000):
        lines = [
            {"features": numbers[i % 7 :] + numbers[: i % 7], "label": 1 if i % 3 else -1}
            for i in range(start_at, start_at + 1_000)
        ]
        service.stream(lines, "wide")
    return service


def test_a_long_history_takes_little_memory_in_any_form(filled: Service) -> None:
    for form, bytes_max in (("ndjson", 24), ("arrow", 48), ("parquet", 64)):
        filled.client.get(f"/models/wide/history?format={form}&to_version=10").raise_for_status()
        restart_peak(filled.process.pid)
        before, read, first = peak_bytes(filled.process.pid), 0, b""
        with filled.client.stream("GET", f"/models/wide/history?format={form}") as answer:
            for part in answer.iter_bytes():
                first = first or part
                read += len(part)
        assert read > 1_000_000 if form != "parquet" else read > 10_000
        assert peak_bytes(filled.process.pid) - before < bytes_max * 2**20, form


@pytest.mark.parametrize("path", ["history", "history?format=arrow"])
def test_head_does_not_read_the_history(filled: Service, path: str) -> None:
    path = f"/models/wide/{path}"
    filled.client.get(path)
    began = read_bytes(filled.process.pid)
    got = filled.client.get(path)
    read = read_bytes(filled.process.pid) - began
    began = read_bytes(filled.process.pid)
    for _ in range(5):  # one more than may be read at a time
        head = filled.client.head(path)
        assert head.status_code == 200 and not head.content
        assert head.headers["content-type"] == got.headers["content-type"]
    assert (read_bytes(filled.process.pid) - began) / 5 < read / 2
    assert filled.client.head("/models/no-such/history").status_code == 404
    assert filled.client.get("/models/wide/history?to_version=1").status_code == 200


def test_those_who_go_away_give_their_places_back(filled: Service) -> None:
    """Four may read at a time; the answers are larger than what waits in sockets."""
    under_way = [filled.client.build_request("GET", "/models/wide/history") for _ in range(4)]
    answers = [filled.client.send(request, stream=True) for request in under_way]
    assert [answer.status_code for answer in answers] == [200] * 4
    fifth = filled.client.get("/models/wide/history?to_version=1")
    assert problem_of(fifth) == (503, "overloaded")
    for answer in answers:
        answer.close()
    eventually(lambda: filled.client.get("/models/wide/history?to_version=1").status_code == 200)


@pytest.mark.parametrize("form", ["ndjson", "arrow"])
def test_a_history_whose_model_is_deleted_meanwhile_breaks_off(start: Start, name: str, form: str) -> None:
    """Its client must not take what it got for all of it, and nobody is told of an error that none foresaw."""
    service = start()
    line = json.dumps({"features": [0.123456789] * 500, "label": 1})
    for _ in range(4):
        service.client.post(
            f"/stream?model={name}&answers=summary",
            content=f"{line}\n" * 1_000,
            headers={"content-type": "application/x-ndjson"},
        )
    began = len(service.log)
    with (
        pytest.raises(httpx.RemoteProtocolError),
        service.client.stream("GET", f"/models/{name}/history?format={form}") as answer,
    ):
        assert answer.status_code == 200
        parts = answer.iter_raw()
        next(parts)
        assert service.client.delete(f"/models/{name}").status_code == 204
        for _ in parts:
            pass
    service.wait_for_log("a response was aborted", after=began)
    assert not any("unexpected error" in line or "ASGI" in line for line in service.log[began:])
