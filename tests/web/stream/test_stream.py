"""POST /stream: the same learning as one by one, in order, while the lines come."""

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True

NDJSON = {"content-type": "application/x-ndjson"}


def send(service: Service, lines: Any, query: str = "", **headers: str) -> list[dict[str, Any]]:
    content = lines if isinstance(lines, bytes) else "\n".join(json.dumps(line) for line in lines).encode()
    answer = service.client.post(f"/stream{query}", content=content, headers={**NDJSON, **headers})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def example(i: int) -> list[float]:
    return [1.0, (i * 7 % 11) - 5.0, (i * i % 13) / 13]


def label(i: int) -> int:
    return 1 if example(i)[1] > example(i)[2] else -1


@pytest.mark.slow
def test_whole_rounds_are_learned_as_if_they_came_one_by_one(service: Service, name: str) -> None:
    one_by_one = [service.learn(f"{name}a", example(i), label(i)) for i in range(300)]
    lines = [{"model": f"{name}b", "features": example(i), "label": label(i)} for i in range(300)]
    streamed = send(service, lines)
    assert [{**answer, "model": ""} for answer in streamed] == [
        {**answer, "model": ""} for answer in one_by_one
    ]
    assert service.weights(f"{name}a") == service.weights(f"{name}b")
    service.assert_replay_equals_live(f"{name}b")


def test_lines_of_all_kinds_and_models_are_answered_in_order(service: Service, name: str) -> None:
    lines = [
        {"features": [1.0], "label": -1},
        {"features": [1.0], "id": f"{name}-p"},
        {"model": f"{name}other", "features": [1.0, 2.0], "label": 1},
        {"prediction_id": f"{name}-p", "label": -1},
        {"features": [1.0], "label": 1, "id": f"{name}-w"},
        {"features": [1.0], "label": 1, "id": f"{name}-w"},
        {"features": [2.0], "label": -1},
    ]
    answers = send(service, lines, f"?model={name}")
    assert answers[0]["mistake"] and answers[0]["rounds"] == 1
    assert answers[1]["label"] == -1 and answers[1]["version"] == 1, "it saw the round before it"
    assert answers[2]["model"] == f"{name}other"
    assert answers[3]["rounds"] == 2 and not answers[3]["mistake"]
    assert answers[4] == answers[5] and answers[4]["rounds"] == 3
    assert answers[6]["rounds"] == 4
    service.assert_replay_equals_live(name)
    service.assert_replay_equals_live(f"{name}other")


@pytest.mark.parametrize(
    ("line", "status", "field"),
    [
        (b"nonsense", 400, None),
        (b"[]", 422, "body"),
        (b"{}", 422, "features"),
        (b'{"features": [1.0], "label": 1, "colour": 2}', 422, "colour"),
        (b'{"features": [1.0, 2.0], "label": 1}', 422, "features"),
        (b'{"features": [1e999], "label": 1}', 422, "features[0]"),
        (b'{"features": [1.0], "label": 7}', 422, None),
        (b'{"prediction_id": "nobody", "label": 1}', 404, None),
        (b'{"prediction_id": "x"}', 422, "prediction_id"),
        (b'{"model": "a/b", "features": [1.0]}', 422, "model"),
        (b'{"features": [1.0], "label": 1' + b" " * 2_000_000 + b"}", 413, None),
    ],
)
def test_a_bad_line_gets_an_error_and_stops_nothing(
    service: Service, name: str, line: bytes, status: int, field: str | None
) -> None:
    good = b'{"features": [1.0], "label": -1}\n'
    answers = send(service, good * 3 + line + b"\n\n" + good * 2, f"?model={name}")
    assert [answer.get("rounds") for answer in answers] == [1, 2, 3, None, 4, 5]
    error = answers[3]["error"]
    assert error["status"] == status and error["type"].endswith(error["code"])
    if field is not None:
        assert error["errors"][0]["field"] == field
    service.assert_replay_equals_live(name)


def test_a_summary_counts(service: Service, name: str) -> None:
    lines = [{"features": example(i), "label": label(i)} for i in range(2500)]
    body = gzip.compress("\n".join(json.dumps(line) for line in [*lines, {"features": []}]).encode())
    (summary,) = send(service, body, f"?model={name}&answers=summary", **{"content-encoding": "gzip"})
    stats = service.stats(name)
    assert summary["lines"] == 2501 and summary["revealed"] == 2500 == stats["rounds"]["revealed"]
    assert summary["mistakes"] == stats["mistakes"]
    assert summary["errors"] == 1 and summary["first_errors"][0]["status"] == 422
    service.assert_replay_equals_live(name)


def test_what_is_not_gzip_is_told(service: Service, name: str) -> None:
    answers = send(service, b"not gzip at all", f"?model={name}", **{"content-encoding": "gzip"})
    assert answers[-1]["error"]["code"] == "malformed-json"


def test_bad_heads_are_refused(service: Service) -> None:
    assert problem_of(service.client.post("/stream", content=b"{}", headers={"content-type": "text/csv"})) == (
        415, "unsupported-media-type",
    )  # fmt: skip
    for query in ("answers=some", "colour=red"):
        assert problem_of(service.client.post(f"/stream?{query}", content=b"{}", headers=NDJSON))[0] == 422
    assert problem_of(service.client.get("/stream")) == (405, "method-not-allowed")


class Duplex:
    """A client that reads answers while it sends lines."""

    def __init__(self, service: Service, query: str) -> None:
        url = httpx.URL(service.url)
        self.socket = socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS)
        self.socket.sendall(
            f"POST /stream{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, line: object) -> None:
        data = json.dumps(line).encode() + b"\n"
        self.socket.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def answers(self) -> Iterator[dict[str, Any]]:
        while self.file.readline() != b"\r\n":
            pass
        while (size := int(self.file.readline(), 16)) > 0:
            for line in self.file.read(size + 2).splitlines():
                if line:
                    yield json.loads(line)


def test_answers_come_while_the_lines_are_still_being_sent(service: Service, name: str) -> None:
    client = Duplex(service, f"?model={name}")
    client.send({"features": [1.0], "label": -1})
    answers = client.answers()
    for i in range(1, 30):
        assert next(answers)["rounds"] == i
        client.send({"features": [1.0], "label": -1})
    client.close()


def test_a_broken_connection_loses_nothing_that_was_answered(start: Callable[..., Service]) -> None:
    service = start()
    client = Duplex(service, "?model=m")
    for i in range(50):
        client.send({"features": example(i), "label": label(i)})
    answers = client.answers()
    answered = [next(answers) for _ in range(50)]
    client.close()
    service.kill()
    service.start()
    assert service.stats("m")["rounds"]["revealed"] >= 50 == answered[-1]["rounds"]
    service.assert_replay_equals_live("m")


def test_httpx_streams_a_generator(service: Service, name: str) -> None:
    def lines() -> Iterator[bytes]:
        for i in range(5000):
            yield json.dumps({"features": example(i), "label": label(i)}).encode() + b"\n"

    answer = service.client.post(f"/stream?model={name}", content=lines(), headers=NDJSON)
    assert [json.loads(line)["rounds"] for line in answer.text.splitlines()] == list(range(1, 5001))


def test_open_streams_are_bounded(start: Callable[..., Service]) -> None:
    service = start(streams_max=1)
    client = Duplex(service, "?model=m")
    client.send({"features": [1.0], "label": 1})
    assert next(client.answers())["rounds"] == 1
    assert problem_of(service.client.post("/stream", content=b"{}", headers=NDJSON)) == (503, "overloaded")
    client.close()


def test_classes_past_the_cap_are_refused_within_a_block(start: Callable[..., Service]) -> None:
    service = start(classes_max=3)
    service.create("m", labels=None)
    answers = send(service, [{"model": "m", "features": [1.0], "label": f"c{i % 5}"} for i in range(10)])
    assert [("error" in answer) for answer in answers] == [False, False, False, True, True] * 2
    service.assert_replay_equals_live("m")


def arrow_of(columns: dict[str, Any], batch_rows: int = 1000) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return sink.getvalue().to_pybytes()


def post_arrow(service: Service, body: bytes, query: str) -> httpx.Response:
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    return service.client.post(f"/stream{query}", content=body, headers=headers)


@pytest.mark.parametrize("as_list", [True, False])
def test_arrow_columns_are_learned_as_lines_are(service: Service, name: str, as_list: bool) -> None:
    send(service, [{"model": f"{name}a", "features": example(i), "label": label(i)} for i in range(2500)])
    rows = [example(i) for i in range(2500)]
    labels = [label(i) for i in range(2500)]
    if as_list:
        columns: dict[str, Any] = {"features": pa.array(rows, pa.list_(pa.float64(), 3)), "label": labels}
    else:
        columns = {"truth": labels, **{f"x{k}": [row[k] for row in rows] for k in range(3)}}
    answer = post_arrow(service, arrow_of(columns), f"?model={name}b" + ("" if as_list else "&label=truth"))
    assert answer.status_code == 200, answer.text
    assert (
        answer.json()["revealed"] == 2500
        and answer.json()["mistakes"] == service.stats(f"{name}a")["mistakes"]
    )
    assert service.weights(f"{name}a") == service.weights(f"{name}b")
    service.assert_replay_equals_live(f"{name}b")


def test_bad_arrow_is_refused_and_changes_nothing(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    good = {"a": [1.0, 2.0], "b": [3.0, 4.0], "label": [1, -1]}
    cases = [
        (b"nonsense", 400),
        (arrow_of({"a": [1.0], "b": [2.0]}), 422),
        (arrow_of({**good, "label": [1, 5]}), 422),
        (arrow_of({**good, "label": [1, None]}), 422),
        (arrow_of({**good, "a": [1.0, None]}), 422),
        (arrow_of({**good, "a": [1.0, float("nan")]}), 422),
        (arrow_of({**good, "a": [1.0, 1e200]}), 422),
        (arrow_of({**good, "a": ["x", "y"]}), 422),
        (arrow_of({**good, "c": [1.0, 1.0]}), 422),
        (arrow_of({"label": [1, -1]}), 422),
        (arrow_of({"features": [[1.0, 2.0], [3.0]], "label": [1, -1]}), 422),
    ]
    for body, status in cases:
        answer = post_arrow(service, body, f"?model={name}")
        assert problem_of(answer)[0] == status, answer.text
    assert problem_of(post_arrow(service, arrow_of(good), ""))[0] == 422
    assert service.stats(name)["rounds"]["revealed"] == 1


def test_every_line_is_answered_however_few_models_may_be_loaded(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=2)
    lines = [{"model": f"m{i % 200}", "features": example(i), "label": label(i)} for i in range(800)]
    assert [answer["rounds"] for answer in send(service, lines)] == [1 + i // 200 for i in range(800)]
    service.assert_replay_equals_live("m7")
