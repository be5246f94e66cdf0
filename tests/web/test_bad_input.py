"""Bad input gets a clear error that names the field, and changes nothing."""

import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

JSON = {"content-type": "application/json"}
GOOD: dict[str, dict[str, Any]] = {
    "/predict": {"model": "m", "features": [1.0, 2.0]},
    "/learn": {"model": "m", "features": [1.0, 2.0], "label": 1},
    "/feedback": {"prediction_id": "p", "label": 1},
    "/models": {"model": "new"},
}


def timeless(stats: dict[str, Any]) -> dict[str, Any]:
    """Statistics without those that depend on when one asks."""
    windows = {
        name: value for name, value in stats["windows"].items() if name not in ("minute", "hour", "day")
    }
    return stats | {"windows": windows}


@pytest.fixture
def unchanged(service: Service, name: str) -> Any:
    """A model that has learned something, and must be the same after the test."""
    service.learn(name, [1.0, 2.0], -1)
    before = timeless(service.stats(name)), service.get(f"/models/{name}/weights")
    yield name
    assert (timeless(service.stats(name)), service.get(f"/models/{name}/weights")) == before
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("content", [b"{", b"nonsense", b"\xff\xfe", b'{"a" 1}', b"'a'", b"\x00", b"{]"])
def test_what_is_not_json_is_malformed(service: Service, path: str, content: bytes) -> None:
    answer = service.client.post(path, content=content, headers=JSON)
    assert problem_of(answer) == (400, "malformed-json")


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("content", [b"", b'{"model": NaN}', b'{"a": 1}}', b'{"a": 1} {}'])
def test_what_is_almost_json_is_refused(service: Service, path: str, content: bytes) -> None:
    answer = service.client.post(path, content=content, headers=JSON)
    assert problem_of(answer) in {(400, "malformed-json"), (422, "invalid-request")}


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("content", [b"[]", b'"text"', b"1", b"null", b"true"])
def test_what_is_not_an_object_is_refused(service: Service, path: str, content: bytes) -> None:
    answer = service.client.post(path, content=content, headers=JSON)
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"]


@pytest.mark.parametrize("path", GOOD)
def test_an_unknown_field_is_named(service: Service, path: str) -> None:
    answer = service.client.post(path, json={**GOOD[path], "colour": "red"})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"] == [{"field": "colour", "message": "unknown field"}]


@pytest.mark.parametrize(("path", "field"), [(path, field) for path, body in GOOD.items() for field in body])
def test_a_missing_field_is_named(service: Service, path: str, field: str) -> None:
    answer = service.client.post(path, json={k: v for k, v in GOOD[path].items() if k != field})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"] == [{"field": field, "message": "is missing"}]


@pytest.mark.parametrize(("path", "field"), [(path, field) for path, body in GOOD.items() for field in body])
@pytest.mark.parametrize("value", [None, {}, 1.5])
def test_a_wrongly_typed_field_is_named(service: Service, path: str, field: str, value: object) -> None:
    answer = service.client.post(path, json={**GOOD[path], field: value})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan", "0x10", "1_0"])
def test_what_is_no_finite_number_is_refused_and_not_echoed(
    service: Service, unchanged: str, number: str
) -> None:
    for path, rest in (("/predict", ""), ("/learn", ', "label": 1')):
        content = f'{{"model": "{unchanged}", "features": [1.0, {number}]{rest}}}'
        answer = service.client.post(path, content=content, headers=JSON)
        assert answer.status_code in (400, 422)
        problem_of(answer)
        assert number not in answer.text
    settings = f'{{"model": "{unchanged}x", "learner": {{"eta0": {number}}}}}'
    answer = service.client.post("/models", content=settings, headers=JSON)
    assert answer.status_code in (400, 422)
    problem_of(answer)
    assert number not in answer.text


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ([], "features"),
        ([1.0], "features"),
        ([1.0, 2.0, 3.0], "features"),
        ([1.0, 1e101], "features[1]"),
        ([-1e200, 1.0], "features[0]"),
        ([1.0] * 65_537, "features"),
        ([1.0, True], "features[1]"),
        ([1.0, None], "features[1]"),
        ([1.0, [2.0]], "features[1]"),
        ("12", "features"),
    ],
)
def test_features_that_do_not_fit_are_refused(
    service: Service, unchanged: str, features: object, field: str
) -> None:
    for path in ("/predict", "/learn"):
        body = {**GOOD[path], "model": unchanged, "features": features}
        answer = service.client.post(path, json=body)
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == field


def test_the_largest_features_are_accepted(service: Service, name: str) -> None:
    for _ in range(3):
        for label in (-1, 1):
            outcome = service.learn(name, [1e100, -1e100, 1e-300, 0.0], label)
            assert abs(outcome["score"]) < 1e300
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize(
    "model",
    [
        "",
        ".",
        "..",
        "a/b",
        "../etc",
        "a b",
        "a\n",
        "\n",
        "\x00",
        "a\x00",
        "ü",
        "😀",
        "a" * 129,
        "x" * 10_000,
        "%2e",
    ],
)
def test_bad_model_names_are_refused(service: Service, model: str) -> None:
    for path in ("/predict", "/learn", "/models"):
        answer = service.client.post(path, json={**GOOD[path], "model": model})
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == "model"
        assert len(answer.content) < 2000


@pytest.mark.parametrize("path", GOOD)
def test_lone_surrogates_are_refused(service: Service, path: str) -> None:
    for content in (b'{"model": "\\ud800", "features": [1]}', b'{"\\udfff": 1}', b'{"label": "\\ud800"}'):
        answer = service.client.post(path, content=content, headers=JSON)
        assert answer.status_code in (400, 422)
        problem_of(answer)


@pytest.mark.parametrize(
    "path", ["/models/%00", "/models/a%2Fb", "/stats/%ED%A0%80", "/stats/" + "a" * 10_000]
)
def test_bad_names_in_paths_are_refused(service: Service, path: str) -> None:
    assert problem_of(service.client.get(path))[0] in (404, 422)


@pytest.mark.parametrize("label", [1.5, "x" * 257, 2**63, -(2**63) - 1, 10**400, None, [1], {"a": 1}])
def test_labels_of_no_legal_kind_are_refused(service: Service, unchanged: str, label: object) -> None:
    answer = service.client.post("/learn", json={"model": unchanged, "features": [1.0, 2.0], "label": label})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == "label"


@pytest.mark.parametrize("bad", ["", "a/b", "x" * 129, "a\n", "..", "ü"])
def test_bad_ids_are_refused(service: Service, unchanged: str, bad: str) -> None:
    for path in ("/predict", "/learn"):
        answer = service.client.post(path, json={**GOOD[path], "model": unchanged, "id": bad})
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == "id"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"learner": {"algorithm": "magic"}}, "learner.algorithm"),
        ({"learner": {"eta0": 0}}, "learner.eta0"),
        ({"learner": {"eta0": 1e-101}}, "learner.eta0"),
        ({"learner": {"algorithm": "pa1", "C": 1e-101}}, "learner.C"),
        ({"learner": {"eta0": "1"}}, "learner.eta0"),
        ({"learner": {"eta0": True}}, "learner.eta0"),
        ({"learner": {"delta": -0.1}}, "learner.delta"),
        ({"learner": {"rule": "whim"}}, "learner.rule"),
        ({"learner": {"schedule": 3}}, "learner.schedule"),
        ({"learner": {"speed": 3}}, "learner.speed"),
        ({"learner": []}, "learner"),
        ({"labels": [1]}, "labels"),
        ({"labels": [1, 1]}, "labels"),
        ({"labels": [1, None]}, "labels[1]"),
        ({"labels": [1, 2**64]}, "labels[1]"),
        ({"tie": 0}, "tie"),
        ({"tie": True}, "tie"),
        ({"bias": 1}, "bias"),
        ({"bias_value": 0}, "bias_value"),
        ({"features": {"kind": "odd"}}, "features.kind"),
        ({"features": {"dimension": 0}}, "features.dimension"),
        ({"features": {"dimension": "2"}}, "features.dimension"),
        ({"features": {"width": 2}}, "features.width"),
        ({"protocol": "loose"}, "protocol"),
        ({"declared_margin": 0}, "declared_margin"),
    ],
)
def test_bad_settings_are_refused_by_field(
    service: Service, name: str, settings: dict[str, object], field: str
) -> None:
    answer = service.client.post("/models", json={"model": name, **settings})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"] == field
    assert service.client.get(f"/models/{name}").status_code == 404


def test_a_reused_id_is_refused_for_another_example(service: Service, name: str) -> None:
    first = service.predict(name, [1.0, 2.0], id=f"{name}-a")
    assert service.predict(name, [1.0, 2.0], id=f"{name}-a") == first
    taken = (409, "prediction-id-taken")
    assert service.refused("/predict", {"model": name, "features": [2.0, 2.0], "id": f"{name}-a"}) == taken
    assert (
        service.refused("/predict", {"model": f"{name}b", "features": [1.0, 2.0], "id": f"{name}-a"}) == taken
    )
    whole = {"model": name, "features": [1.0, 2.0], "label": 1, "id": f"{name}-a"}
    assert service.refused("/learn", whole) == taken
    service.reveal(f"{name}-a", 1)
    assert service.predict(name, [1.0, 2.0], id=f"{name}-a") == first
    assert service.refused("/predict", {"model": name, "features": [2.0, 2.0], "id": f"{name}-a"}) == taken
    assert service.refused("/learn", whole) == taken
    assert service.stats(name)["rounds"] == {"predicted": 1, "revealed": 1, "pending": 0, "expired": 0}


def test_a_whole_round_with_an_id_is_learned_once(service: Service, name: str) -> None:
    whole = {"model": name, "features": [1.0, 2.0], "label": -1, "id": f"{name}-w"}
    first = service.client.post("/learn", json=whole)
    service.learn(name, [5.0, 5.0], 1)
    again = service.client.post("/learn", json=whole)
    assert again.json() == first.json() and again.headers["idempotent-replay"] == "true"
    assert service.refused("/learn", {**whole, "label": 1}) == (409, "feedback-conflict")
    assert service.refused("/learn", {**whole, "features": [2.0, 2.0]}) == (409, "prediction-id-taken")
    predicted = {"model": name, "features": [1.0, 2.0], "id": f"{name}-w"}
    assert service.refused("/predict", predicted) == (409, "prediction-id-taken")
    assert service.stats(name)["rounds"]["revealed"] == 2
    service.assert_replay_equals_live(name)


def test_unknown_models_are_not_made_when_the_service_may_not(start: Callable[..., Service]) -> None:
    service = start(auto_create="false")
    for path in ("/predict", "/learn"):
        assert service.refused(path, GOOD[path]) == (404, "unknown-model")
    service.create("m")
    service.predict("m", [1.0])


@pytest.mark.parametrize("path", ["/models/nobody", "/models/nobody/weights", "/stats/nobody"])
def test_unknown_models_are_not_found(service: Service, path: str) -> None:
    assert problem_of(service.client.get(path)) == (404, "unknown-model")
    assert service.client.get("/models/nobody").status_code == 404


@pytest.mark.parametrize("path", ["/predict", "/feedback", "/learn"])
def test_another_method_is_not_allowed(service: Service, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = service.client.request(method, path)
        assert problem_of(answer) == (405, "method-not-allowed")
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None]
)
def test_another_content_type_is_not_supported(service: Service, path: str, media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}
    answer = service.client.post(path, content=b'{"model": "m", "features": [1]}', headers=headers)
    assert problem_of(answer) == (415, "unsupported-media-type")


@pytest.mark.parametrize("path", GOOD)
def test_json_with_parameters_is_json(service: Service, name: str, path: str) -> None:
    body = {**GOOD[path], "model": name} if "model" in GOOD[path] else GOOD[path]
    answer = service.client.post(path, json=body, headers={"content-type": "Application/JSON; charset=utf-8"})
    assert answer.status_code in (200, 201, 404)


@pytest.mark.parametrize("path", GOOD)
def test_a_body_that_says_it_is_too_large_is_refused_unread(service: Service, path: str) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "content-length: 99999999999\r\n\r\n{".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("path", GOOD)
def test_a_body_that_grows_too_large_is_refused(service: Service, path: str) -> None:
    def endless() -> Any:
        for _ in range(40):
            yield b" " * 65_536

    answer = service.client.post(path, content=endless(), headers=JSON)
    assert problem_of(answer) == (413, "body-too-large")


def test_a_strict_model_wants_the_label_first(service: Service, name: str) -> None:
    service.create(name, protocol="strict")
    first = service.predict(name, [1.0])
    assert service.refused("/predict", {"model": name, "features": [1.0]}) == (409, "reveal-first")
    service.reveal(first["prediction_id"], 1)
    service.predict(name, [1.0])


@pytest.mark.parametrize("path", ["/predict", "/feedback", "/learn"])
def test_a_name_that_is_not_utf_8_is_malformed(service: Service, path: str) -> None:
    answer = service.client.post(
        path, content=b'{"mod\xed\xa0\x80": 1}', headers={"content-type": "application/json"}
    )
    assert problem_of(answer) == (400, "malformed-json")


@pytest.mark.parametrize(
    "path", ["/stats", "/stats/{}", "/models", "/models/{}", "/models/{}/weights", "/feed"]
)
def test_a_parameter_that_is_not_known_is_named(service: Service, name: str, path: str) -> None:
    service.learn(name, [1.0], 1)
    answer = service.client.get(path.format(name), params={"colour": "red"})
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"] == [{"field": "colour", "message": "unknown parameter"}]


def test_every_route_names_a_parameter_that_it_does_not_know(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    asked = 0
    for path, methods in service.get("/openapi.json")["paths"].items():
        for method in methods:
            if method == "delete" and path == "/models/{model}":
                continue  # last, or it would be gone where a check is missing
            address = re.sub(r"{\w+}", name, path) + "?colour=red"
            body = {"json": {}} if method in ("post", "put") else {}
            if path.endswith("/stream"):
                body = {"content": b"", "headers": {"content-type": "application/x-ndjson"}}
            answer = service.client.request(method, address, **body)
            assert problem_of(answer) == (422, "invalid-request"), (method, path)
            assert {"field": "colour", "message": "unknown parameter"} in answer.json()["errors"], path
            asked += 1
    assert asked > 35
    good = {"model": name, "features": [1.0], "label": 1}
    for path in ("/learn", f"/models/{name}/learn"):
        answer = service.client.post(f"{path}?colour", json=good)
        assert answer.json()["errors"] == [{"field": "colour", "message": "unknown parameter"}]
    assert service.stats(name)["rounds"]["revealed"] == 1


@pytest.mark.slow  # large exports are read by a process
def test_a_name_that_comes_twice_in_json_is_refused_where_models_are_made(
    service: Service, name: str
) -> None:
    twice = b'{"model": "%s", "learner": {"eta0": 1.0, "eta0": 2.0}}' % name.encode()
    answer = service.client.post("/models", content=twice, headers=JSON)
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"] == [{"field": "eta0", "message": "appears more than once"}]
    service.learn(name, [1.0], 1)
    export = service.client.get(f"/models/{name}/export").content
    for padding in (b"", b" " * 70_000):  # read by a process
        for again in (b'"format": 9', b'"\\ud800": 1, "\\ud800": 1'):
            answer = service.client.put(
                f"/models/{name}-2", content=b"{%b%b,%b" % (padding, again, export[1:]), headers=JSON
            )
            assert problem_of(answer) == (422, "invalid-export")
            assert answer.json()["errors"][0]["message"] == "appears more than once", answer.text
    assert problem_of(service.client.get(f"/models/{name}-2")) == (404, "unknown-model")


def test_a_parameter_that_comes_twice_is_named(service: Service) -> None:
    for method, path, field in (
        ("GET", "/models?limit=1&limit=2", "limit"),
        ("POST", "/stream?model=a&model=b", "model"),
    ):
        answer = service.client.request(method, path, headers={"content-type": "application/x-ndjson"})
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"] == [{"field": field, "message": "appears more than once"}]
