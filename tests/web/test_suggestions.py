"""An error that has a likely remedy names it."""

import socket
from typing import Any

import pytest

from service.errors import AddressUnusable, InvalidSettings
from service.runtime.listening import listen
from service.settings import load_settings
from tests.support.service_process import Service

LEARN = {"features": [1.0], "label": 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "meant"),
    [
        ("POST", "/predict", {"modle": "m", "features": [1.0]}, "modle", "model"),
        ("POST", "/models/m/learn", {**LEARN, "wieght": 2.0}, "wieght", "weight"),
        ("POST", "/models", {"model": "new", "algorithm": "auto"}, "algorithm", "learner.algorithm"),
        ("POST", "/models", {"model": "new", "lables": [0, 1]}, "lables", "labels"),
        ("POST", "/models", {"model": "new", "fourier": {}}, "fourier", "features.fourier"),
        ("PUT", "/feedback/p", {"lable": 1}, "lable", "label"),
    ],
)
def test_an_unknown_field_comes_with_the_nearest_known_one(
    service: Service, method: str, path: str, body: dict[str, Any], field: str, meant: str
) -> None:
    refused = service.client.request(method, path, json=body)
    assert refused.status_code == 422
    messages = {each["field"]: each["message"] for each in refused.json()["errors"]}
    assert messages[field] == f"unknown field; did you mean `{meant}`?"


def test_so_does_one_of_a_line_of_a_stream_and_a_parameter_of_a_query(service: Service, name: str) -> None:
    kind = {"content-type": "application/x-ndjson"}
    line = service.client.post(f"/stream?model={name}", content=b'{"featurse": [1.0]}', headers=kind)
    assert "did you mean `features`?" in line.json()["error"]["detail"]
    refused = service.client.get("/models?limt=3")
    assert refused.json()["errors"][0]["message"] == "unknown parameter; did you mean `limit`?"


@pytest.mark.parametrize(("sent", "shown"), [("pa1", "pa1"), ("best", "auto")])
def test_a_learner_that_is_a_word_gets_the_object_to_send(service: Service, sent: str, shown: str) -> None:
    refused = service.client.post("/models", json={"model": "new", "learner": sent})
    (error,) = refused.json()["errors"]
    assert error == {"field": "learner", "message": f'must be an object, such as {{"algorithm": "{shown}"}}'}
    assert service.client.post("/models", json={"model": "new", "learner": {"algorithm": shown}}).is_success
    service.client.delete("/models/new")


def test_a_parameter_of_another_learner_gets_those_that_there_are(service: Service) -> None:
    refused = service.client.post(
        "/models", json={"model": "new", "learner": {"algorithm": "pa1", "eta0": 1}}
    )
    assert refused.json()["errors"] == [
        {"field": "learner.eta0", "message": "is not a parameter of pa1, which has C"}
    ]


def test_a_feedback_conflict_has_the_first_label_and_the_way_to_correct_it(
    service: Service, name: str
) -> None:
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    service.reveal(prediction_id, -1)
    refused = service.client.post("/feedback", json={"prediction_id": prediction_id, "label": 1})
    assert refused.json()["detail"] == (
        f"'{prediction_id}' was already revealed with label -1; PUT /feedback/{prediction_id} corrects it"
    )
    assert service.client.put(f"/feedback/{prediction_id}", json={"label": 1}).is_success


def test_an_unknown_setting_comes_with_the_nearest_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOVIKOFF_API_KEY", "x")
    with pytest.raises(InvalidSettings) as refused:
        load_settings()
    assert refused.value.detail == (
        "NOVIKOFF_API_KEY: unknown setting; did you mean `NOVIKOFF_API_KEYS`?; docs/settings.md lists all"
    )


def test_a_port_that_is_taken_is_told_with_the_option_for_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnusable, match="address already in use; choose another port with --port"):
            listen("127.0.0.1", port)
