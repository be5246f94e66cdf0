"""A refused request leaves nothing behind: no model, no event, and no dimension of a model that has none yet."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service

OVER_EVERY_JOURNAL = True

LONG = "x" * 201

BAD_FEATURES: dict[str, Any] = {
    "empty list": [],
    "no names": {},
    "out of range": [1.0, 1e300],
    "a name out of range": {"a": 1e300},
    "too many": [0.5] * 65_537,
    "too many names": {f"n{number}": 1.0 for number in range(65_537)},
    "no words": {"a": [1.0]},
    "no number": {"a": None},
}
"""Of any request."""

BAD_ROUNDS: dict[str, dict[str, Any]] = {
    "unknown label": {"features": [1.0, 2.0], "label": "unheard of"},
    "unknown label, named": {"features": {"a": 1.0}, "label": "unheard of"},
    "true is not 1": {"features": [1.0, 2.0], "label": True},
    "long label": {"features": [1.0, 2.0], "label": LONG},
    "half a label": {"features": [1.0, 2.0], "label": 0.5},
    "weight of nothing": {"features": [1.0, 2.0], "label": 1, "weight": 0.0},
    "weight too large": {"features": [1.0, 2.0], "label": 1, "weight": 1e9},
    "bad id": {"features": [1.0, 2.0], "label": 1, "id": "a b"},
    "long tag": {"features": [1.0, 2.0], "label": 1, "tag": LONG},
}

BAD_PREDICTIONS: dict[str, dict[str, Any]] = {
    "bad id": {"features": [1.0, 2.0], "id": "a b"},
    "long tag": {"features": [1.0, 2.0], "tag": LONG},
    "dry with an id": {"features": [1.0, 2.0], "dry": True, "id": "p"},
}

for _case, _features in BAD_FEATURES.items():
    BAD_ROUNDS[_case] = {"features": _features, "label": 1}
    BAD_PREDICTIONS[_case] = {"features": _features}

Ask = Callable[[Service, str, dict[str, Any]], list[dict[str, Any]]]
"""Sends something to a model in one of the ways there are; the answers to its parts."""


def _post(service: Service, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = service.client.post(path, json=body)
    told = answer.json()
    parts = told.get("items", [told])
    return parts if answer.status_code == 200 else [{"error": told}]


def _plain(path: str) -> Ask:
    return lambda service, name, body: _post(service, path, {"model": name, **body})


def _of_model(path: str) -> Ask:
    return lambda service, name, body: _post(service, f"/models/{name}{path}", body)


def _item(path: str) -> Ask:
    return lambda service, name, body: _post(service, path, {"items": [{"model": name, **body}]})


def send(service: Service, path: str, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """What a stream of these lines is answered."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    answer = service.client.post(path, content=content, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def _line(service: Service, name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return send(service, "/stream", {"model": name, **body})


def _block(service: Service, name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return send(service, f"/models/{name}/stream", body, body, body)


ROUNDS: dict[str, Ask] = {"learn": _plain("/learn"), "path": _of_model("/learn"), "items": _item("/learn")}
PREDICTIONS: dict[str, Ask] = {
    "predict": _plain("/predict"),
    "path": _of_model("/predict"),
    "items": _item("/predict"),
}
STREAMS: dict[str, Ask] = {"line": _line, "block": _block}
CASES = [
    pytest.param(ask, body, id=f"{way}: {case}")
    for ways, bodies in (
        (ROUNDS | STREAMS, BAD_ROUNDS),
        (PREDICTIONS, BAD_PREDICTIONS),
        (STREAMS, {case: body for case, body in BAD_PREDICTIONS.items() if "dry" not in body}),
    )
    for way, ask in ways.items()
    for case, body in bodies.items()
]


def check_refused(parts: list[dict[str, Any]]) -> None:
    assert parts and all(400 <= part["error"]["status"] < 500 for part in parts), parts


def events_of(service: Service, name: str) -> list[dict[str, Any]]:
    return service.get(f"/models/{name}/events")["events"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("ask", "body"), CASES)
def test_it_makes_no_model_and_fixes_no_dimension(
    service: Service, name: str, ask: Ask, body: dict[str, Any]
) -> None:
    check_refused(ask(service, name, body))
    assert service.client.get(f"/models/{name}").status_code == 404
    service.post("/models", {"model": name})
    before = events_of(service, name)
    check_refused(ask(service, name, body))
    assert service.get(f"/models/{name}")["dimension"] is None
    assert events_of(service, name) == before
    # Another kind of features than the one that was refused, and then another length.
    service.client.delete(f"/models/{name}")
    other: Any = {"a": 1.0} if isinstance(body["features"], list) else [1.0, 2.0, 3.0]
    assert service.learn(name, other, 1)["rounds"] == 1


def test_an_id_that_is_taken_makes_no_model(service: Service, name: str) -> None:
    first, other = f"{name}.first", f"{name}.other"
    service.predict(first, [1.0, 2.0], id=f"{name}-p")
    service.post("/learn", {"model": first, "features": [1.0, 2.0], "label": 1, "id": f"{name}-l"})
    for taken in (f"{name}-p", f"{name}-l"):
        for body in ({"features": [1.0, 2.0]}, {"features": [1.0, 2.0], "label": 1}):
            for ask in (PREDICTIONS | STREAMS if "label" not in body else ROUNDS | STREAMS).values():
                check_refused(ask(service, other, {**body, "id": taken}))
                assert service.client.get(f"/models/{other}").status_code == 404


def test_a_block_makes_a_model_by_its_first_good_line(service: Service, name: str) -> None:
    """As if its lines came one by one."""
    bad = [{"features": {}}, {"features": {"a": 1.0}, "label": "c"}, {"features": [1.0], "label": "c"}]
    good = [{"features": [1.0, 2.0], "label": 1}, {"features": [3.0, 4.0], "label": -1}]
    told = send(service, f"/models/{name}/stream", *({"label": 1, **line} for line in (*bad, *good)))
    assert ["error" in line for line in told] == [True, True, True, False, False], told
    assert (service.get(f"/models/{name}")["dimension"], told[-1]["rounds"]) == (2, 2)
    service.assert_replay_equals_live(name)


def test_a_line_with_an_unknown_label_does_not_fix_the_dimension_for_those_after_it(
    service: Service, name: str
) -> None:
    service.post("/models", {"model": name, "labels": ["a", "b"]})
    lines = {"features": [1.0], "label": "c"}, {"features": [1.0, 2.0], "label": "a"}
    told = send(service, f"/models/{name}/stream", *lines)
    assert ["error" in line for line in told] == [True, False]
    assert service.get(f"/models/{name}")["dimension"] == 2


@pytest.mark.parametrize(
    ("columns", "labels"),
    [([[1.0, 2.0], [3.0, 1e300]], [1, -1]), ([[1.0, 2.0], [3.0, 4.0]], [1, 7])],
    ids=["out of range", "unknown label"],
)
def test_an_arrow_stream_that_is_refused_makes_no_model(
    service: Service, name: str, columns: list[list[float]], labels: list[int]
) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({**{f"x{at}": column for at, column in enumerate(columns)}, "label": labels})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)

    def refused() -> bool:
        answer = service.client.post(
            "/stream",
            params={"model": name},
            content=sink.getvalue().to_pybytes(),
            headers={"content-type": "application/vnd.apache.arrow.stream"},
        )
        return answer.status_code == 422

    assert refused()
    assert service.client.get(f"/models/{name}").status_code == 404
    service.post("/models", {"model": name})
    assert refused()
    assert service.get(f"/models/{name}")["dimension"] is None
