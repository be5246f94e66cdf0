"""The model in the path: the same rounds, answers, bounds and figures as without it."""

import io
import json
import re
from typing import Any

import httpx
import pyarrow as pa
import pytest

from novikoff.schemas import NAME_CHARS_MAX
from service.web.routes.rounds import QuickPaths
from tests.support.raw_http import connect, read_until, request
from tests.support.service_process import Service, problem_of

LINES = {"content-type": "application/x-ndjson"}
OTHER_MODEL = [{"field": "model", "message": "must equal that of the path, or be left out"}]


def post(service: Service, path: str, body: Any) -> httpx.Response:
    return service.client.post(path, json=body)


def good(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(service: Service, model: str, lines: list[dict[str, Any]], query: str = "") -> list[Any]:
    content = "\n".join(map(json.dumps, lines))
    answer = service.client.post(f"/models/{model}/stream{query}", content=content, headers=LINES)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_round_answers_as_it_does_without_the_model_in_the_path(service: Service, name: str) -> None:
    told = {}
    for model, prefix, own in ((name, "", {"model": name}), (f"{name}.path", f"/models/{name}.path", {})):
        round_id = f"{model}-1"
        answers = [
            post(service, f"{prefix}/predict", {"features": [1.0, 2.0], "id": round_id, "explain": 2, **own}),
            post(service, f"{prefix}/feedback", {"prediction_id": round_id, "label": -1}),
            post(service, f"{prefix}/feedback", {"prediction_id": round_id, "label": -1}),
            post(service, f"{prefix}/learn", {"features": [2.0, 1.0], "label": 1, "weight": 2.0, **own}),
            post(
                service, f"{prefix}/predict", {"features": [2.0, 1.0], "dry": True, "min_version": 2, **own}
            ),
        ]
        told[prefix] = [(a.status_code, a.text.replace(model, "?"), len(a.headers)) for a in answers]
        assert answers[2].headers["idempotent-replay"] == "true"
    plain, in_path = told.values()
    assert plain == in_path and {status for status, _, _ in plain} == {200}


def test_the_same_model_in_the_body_is_fine_and_another_one_changes_nothing(
    service: Service, name: str
) -> None:
    round_id = good(post(service, f"/models/{name}/predict", {"model": name, "features": [1.0]}))[
        "prediction_id"
    ]
    bodies = {
        "predict": {"features": [1.0]},
        "learn": {"features": [1.0], "label": 1},
        "feedback": {"prediction_id": round_id, "label": 1},
    }
    for route, body in bodies.items():
        answer = post(service, f"/models/{name}/{route}", body | {"model": f"{name}.other"})
        assert problem_of(answer) == (422, "invalid-request") and answer.json()["errors"] == OTHER_MODEL
    assert service.stats(name)["rounds"] == {"predicted": 1, "revealed": 0, "pending": 1, "expired": 0}
    assert service.client.get(f"/models/{name}.other").status_code == 404
    for route in ("feedback", "learn"):
        assert (
            good(post(service, f"/models/{name}/{route}", bodies[route] | {"model": name}))["model"] == name
        )


def test_a_prediction_of_another_model_is_unknown_there(service: Service, name: str) -> None:
    """Whether it waits, or was revealed: and a model whose name begins alike is another one, too."""
    longer = f"{name}.longer"
    waiting, revealed = (service.predict(longer, [1.0])["prediction_id"] for _ in range(2))
    service.reveal(revealed, 1)
    service.learn(name, [1.0], 1)
    nobody = post(service, f"/models/{name}/feedback", {"prediction_id": "nobody-s", "label": 1})
    for each in (waiting, revealed):
        answer = post(service, f"/models/{name}/feedback", {"prediction_id": each, "label": 1})
        assert problem_of(answer) == (404, "unknown-prediction")
        assert answer.text.replace(each, "?") == nobody.text.replace("nobody-s", "?")
        (line,) = stream(service, name, [{"prediction_id": each, "label": 1}])
        assert line["error"]["code"] == "unknown-prediction"
    assert service.stats(longer)["rounds"]["pending"] == 1
    assert (
        good(post(service, f"/models/{longer}/feedback", {"prediction_id": waiting, "label": 1}))["rounds"]
        == 2
    )


def test_many_in_one_are_of_the_path_s_model_each(service: Service, name: str) -> None:
    items = [
        {"features": [1.0], "label": 1, **more} for more in ({}, {"model": "x"}, {"model": name}, {"a": 1})
    ]
    answers = good(post(service, f"/models/{name}/learn", {"items": items}))["items"]
    assert [a.get("rounds") or a["error"]["errors"][0]["field"] for a in answers] == [1, "model", 2, "a"]


def test_lines_of_a_stream_are_of_the_path_s_model(service: Service, name: str) -> None:
    """However they are decoded: as an array, by name, or one by one."""
    whole = {"features": [1.0, 2.0], "label": 1}
    answers = stream(service, name, [whole, {**whole, "model": name}, {**whole, "model": "x"}, whole])
    assert [a.get("rounds") or a["error"]["errors"] for a in answers] == [1, 2, OTHER_MODEL, 3]
    for features in ([1.0, 2.0], {"a": 1.0, "b": 2.0}):
        foreign = [{"model": f"{name}.x", "features": features, "label": 1}] * 40
        answers = stream(service, name, foreign)
        assert {json.dumps(a["error"]["errors"]) for a in answers} == {json.dumps(OTHER_MODEL)}
    assert service.client.get(f"/models/{name}.x").status_code == 404
    (summary,) = stream(service, name, [whole] * 5, f"?answers=summary&model={name}")
    assert summary["revealed"] == 5
    answer = service.client.post(f"/models/{name}/stream?model=x", content="", headers=LINES)
    assert problem_of(answer) == (422, "invalid-request") and answer.json()["errors"] == OTHER_MODEL


def test_arrow_columns_need_no_model_in_the_query(service: Service, name: str) -> None:
    batch = pa.record_batch({"a": [1.0, 2.0], "b": [0.0, 1.0], "label": [1, -1]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = service.client.post(f"/models/{name}/stream", content=sink.getvalue(), headers=headers)
    assert good(answer)["revealed"] == 2 and service.stats(name)["rounds"]["revealed"] == 2


@pytest.mark.parametrize("model", ["..%20", "%7Bmodel%7D", "a%00b", "é", "x" * (NAME_CHARS_MAX + 1)])
def test_a_bad_name_in_the_path_is_refused_by_its_field(service: Service, model: str) -> None:
    bodies = {
        "predict": {"features": [1.0]},
        "learn": {"features": [1.0], "label": 1},
        "feedback": {"prediction_id": "p", "label": 1},
    }
    for route, body in [*bodies.items(), *((route, {"items": [body]}) for route, body in bodies.items())]:
        answer = post(service, f"/models/{model}/{route}", body)
        assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "model", answer.text
    answer = service.client.post(
        f"/models/{model}/stream", content=json.dumps(bodies["learn"]), headers=LINES
    )
    assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "model", answer.text


def test_other_methods_and_other_bodies_are_refused(service: Service, name: str) -> None:
    for route in ("predict", "feedback", "learn", "stream"):
        assert service.client.get(f"/models/{name}/{route}").status_code == 405
        assert service.client.post(f"/models/{name}/{route}", content=b"<x/>").status_code == 415
    assert problem_of(post(service, f"/models/{name}/learn", [1])) == (422, "invalid-request")
    assert service.client.post(f"/models/{name}/x/learn", json={}).status_code == 404


def test_the_figures_name_the_route_and_no_model(service: Service, name: str) -> None:
    for at in range(3):
        post(service, f"/models/{name}.{at}/learn", {"features": [1.0], "label": 1})
        stream(service, f"{name}.{at}", [{"features": [1.0], "label": 1}])
    told = service.client.get("/metrics").text
    routes = set(re.findall(r'novikoff_request_seconds_count\{[^}]*route="([^"]*)"', told))
    assert {"/models/{model}/learn", "/models/{model}/stream"} <= routes
    assert not any(name in route for route in routes)


def test_its_requests_are_read_without_the_parser_as_well(service: Service, name: str) -> None:
    """Kept on one connection, with one model after the other, they stay apart."""
    assert f"/models/{name}/learn" in QuickPaths() and f"/models/{name}/stream" not in QuickPaths()
    assert "/models/../learn" not in QuickPaths() and f"/models/{name}/learn?a" not in QuickPaths()
    with connect(service) as connection:
        for at in range(12):
            model = f"{name}.{at % 6}"
            connection.sendall(request(f"/models/{model}/learn", b'{"features": [1.0], "label": 1}'))
            _, _, body = read_until(connection, b"}").partition(b"\r\n\r\n")
            assert (json.loads(body)["model"], json.loads(body)["rounds"]) == (model, 1 + at // 6)
