"""Imports over HTTP: what is doctored changes nothing, and what is large stops nobody."""

import copy
from collections.abc import Callable

import pytest

from tests.support.doctored_exports import with_digest
from tests.support.process_usage import peak_bytes
from tests.support.service_process import Service, problem_of

JSON = {"content-type": "application/json"}


def test_a_doctored_export_is_refused_and_the_service_goes_on(start: Callable[..., Service]) -> None:
    service = start()
    for number in range(5):
        service.learn("taught", [1.0, float(number)], number % 2 * 2 - 1)
    good = service.get("/models/taught/export")
    for change in ({"expired": 2**63}, {"drifts_recorded": "x"}, {"labels": [1, 1]}):
        answer = service.client.put("/models/copy", json=with_digest({**copy.deepcopy(good), **change}))
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == list(change)
        assert service.client.get("/models/copy").status_code == 404
    assert service.client.put("/models/copy", json=good).status_code == 201
    service.restart()
    assert service.learn("copy", [1.0, 2.0], 1)["rounds"] == 6


def test_an_import_has_to_be_json(service: Service) -> None:
    for headers in ({"content-type": "application/x-ndjson"}, {"content-type": "text/plain"}):
        assert service.client.put("/models/lines", content=b"{}", headers=headers).status_code == 415
    assert service.client.put("/models/none", content=b"{", headers=JSON).status_code == 400
    assert service.client.put("/models/none", content=b"[]", headers=JSON).status_code == 422


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [100, 500, 900])
def test_an_import_that_is_nested_deep_is_refused(
    service: Service, name: str, depth: int, opening: str, closing: str
) -> None:
    service.create(name)
    nested = opening * depth + "1" + closing * depth
    export = service.client.get(f"/models/{name}/export").text.replace("{", '{"deep":' + nested + ",", 1)
    answer = service.client.put(f"/models/{name}-copy", content=export, headers=JSON)
    assert problem_of(answer) == (422, "invalid-export")
    assert "nested" in answer.text and "deep" in answer.json()["errors"][0]["field"]


def test_a_large_body_that_is_no_export_takes_neither_memory_nor_time_of_the_service(
    start: Callable[..., Service],
) -> None:
    service = start()
    service.learn("m", [1.0], 1)
    before = peak_bytes(service.process.pid)
    body = b'{"format": [' + b"[]," * 6_700_000 + b"[]]}"
    answer = service.client.put("/models/lists", content=body, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-export"
    # It was 1,100 MB: the body itself has to be here, once as it came and once on its way to the process.
    assert peak_bytes(service.process.pid) - before < 6 * len(body)


def test_a_large_export_is_taken_by_a_process_of_its_own(start: Callable[..., Service]) -> None:
    service = start()
    service.create("wide", features={"kind": "dense", "dimension": 20_000})
    service.learn("wide", [number / 7 for number in range(20_000)], -1)
    export = service.get("/models/wide/export")
    assert service.client.put("/models/twin", json=export).status_code == 201
    assert service.weights("twin") == service.weights("wide")
    export["classifier"]["weights"]["$array"][7] = 1e300
    answer = service.client.put("/models/bad", json=with_digest(export))
    assert [error["field"] for error in answer.json()["errors"]] == ["classifier.weights"]
