"""What clients are told when they got something wrong: one sentence for one thing, in words."""

import pytest

from novikoff.schemas import NAME_RULE
from tests.support.service_process import Service


@pytest.mark.parametrize("path", ["/predict", "/stream?model=words"])
def test_what_programs_send_for_nan_is_said_to_be_no_finite_number(service: Service, path: str) -> None:
    kind = "application/x-ndjson" if "stream" in path else "application/json"
    for features, field in (("[1.0, null]", "features[1]"), ('{"a": null}', "features.a")):
        body = f'{{"model": "words.{field[8:9]}", "features": {features}}}'
        answer = service.client.post(path, content=body, headers={"content-type": kind}).json()
        (error,) = answer.get("error", answer)["errors"]
        assert error["field"] == field and error["message"].startswith("must be a finite number")


def test_every_route_has_the_same_sentence_for_a_bad_name(service: Service) -> None:
    refused = [
        service.client.post("/predict", json={"model": "a b", "features": [1.0]}),
        service.client.post("/models", json={"model": "a b"}),
        service.client.get("/models/a b"),
        service.client.get("/stats/a b"),
        service.client.get("/feed?model=a b"),
        service.client.post("/models/m/fork", json={"as": "a b"}),
    ]
    for answer in refused:
        assert answer.json()["errors"][0]["message"] == f"must be {NAME_RULE}", answer.url
