"""Requests that once ended in a 500 or in an answer that was cut off: each gets a clear problem now."""

import io

import pyarrow as pa
import pytest

from tests.support.service_process import Service

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
HALF = "\\ud800"
"""Half of a surrogate pair, escaped as in JSON."""


@pytest.mark.parametrize("depth", [1_000, 20_000])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/predict", '{"model": "deep", "features": {"x": DEEP}}'),
        ("POST", "/learn", '{"model": "deep", "features": {"x": DEEP}, "label": 1}'),
        ("POST", "/learn", '{"items": [{"model": "deep", "features": {"x": DEEP}, "label": 1}]}'),
        ("POST", "/feedback", '{"prediction_id": DEEP, "label": 1}'),
        ("POST", "/models", '{"model": "deep", "learner": DEEP}'),
        ("POST", "/models/deep/fit", '{"source": "history", "unknown": DEEP}'),
        ("POST", "/models/deep/fit", '{"examples": [{"features": {"x": DEEP}, "label": 1}]}'),
        ("PUT", "/models/deeper", '{"format": DEEP}'),
    ],
)
def test_json_nested_too_deep_is_malformed(
    service: Service, method: str, path: str, body: str, depth: int
) -> None:
    service.learn("deep", [1.0], 1)
    deep = "[" * depth + "]" * depth
    answer = service.client.request(method, path, content=body.replace("DEEP", deep), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) in {(400, "malformed-json"), (422, "invalid-request")}


def test_a_line_nested_too_deep_stops_no_stream(service: Service) -> None:
    deep = '{"features": {"x": %s}, "label": 1}' % ("[" * 1_000 + "]" * 1_000)
    good = '{"features": {"x": 1}, "label": 1}'
    answer = service.client.post(
        "/stream?model=deep-lines", content=f"{good}\n{deep}\n{good}\n", headers=LINES
    )
    first, second, third = answer.text.splitlines()
    assert '"malformed-json"' in second
    assert '"rounds":1' in first and '"rounds":2' in third
    fit = service.client.post("/models/deep-lines/fit", content=f"{good}\n{deep}\n", headers=LINES)
    assert fit.json()["errors"][0]["field"] == "examples[1]"


def test_a_stream_of_empty_features_gets_a_problem_for_each_line(service: Service) -> None:
    service.create("empty-lines", features="named")
    lines = '{"features": {}, "label": 1}\n' * 3
    answer = service.client.post("/stream?model=empty-lines", content=lines, headers=LINES)
    assert [("must not be empty" in line) for line in answer.text.splitlines()] == [True] * 3


@pytest.mark.parametrize(
    "settings",
    [
        '"labels": ["a", "HALF"]',
        '"labels": ["a", "b"], "tie": "HALF"',
        '"features": {"kind": "named", "text": ["HALF"]}',
        '"features": {"kind": "named", "HALF": 1}',
        '"features": {"kind": "dense", "fourier": {"HALF": 1}}',
        '"learner": {"HALF": 1}',
        '"HALF": 1',
    ],
)
def test_half_a_surrogate_pair_in_a_models_settings_is_malformed(service: Service, settings: str) -> None:
    body = '{"model": "half", ' + settings.replace("HALF", HALF) + "}"
    answer = service.client.post("/models", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed-json")
    assert service.client.get("/models/half").status_code == 404


@pytest.mark.parametrize("form", ["onnx", "sklearn"])
def test_a_named_model_without_names_is_not_exported_for_others(service: Service, form: str) -> None:
    service.create(f"nameless-{form}", features="named")
    answer = service.client.get(f"/models/nameless-{form}/export?format={form}")
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "format", "message": f"cannot be {form}: the model has not yet learned a feature"}
    ]


@pytest.mark.parametrize("names", [["x", "x", "label"], ["x", "label", "label"]])
def test_arrow_with_a_column_name_twice_is_refused(service: Service, names: list[str]) -> None:
    batch = pa.record_batch([pa.array([1.0]), pa.array([2]), pa.array([1])], names=names)
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as stream:
        stream.write_batch(batch)
    answer = service.client.post("/stream?model=twice", content=body.getvalue(), headers=ARROW)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": names[1], "message": "names more than one column"}]
