"""What 0.1.0 answered after it had opened its own files again; and whether a service answers the same."""

import json
import lzma
from pathlib import Path
from typing import Any

from tests.golden.fleet import Fleet
from tests.support.service_process import Service

Exchange = dict[str, Any]
"""A request and its answer: method, path, body, status, answer; `replayed` if the answer was given before."""

STABLE = {
    "version", "rounds", "mistakes", "updates", "error_rate", "ewma_error_rate", "classes", "baselines", "drift",
    "created_at",
}  # fmt: skip
"""Statistics that every version has to give alike. Not among them: the mistake bound, whose verdict and ceiling
later versions judge more sharply; windows of time and the delay of labels, which depend on when one asks."""

STABLE_PARTS = {
    "windows": ("last_100", "last_1000", "last_10000"),
    "confusion": ("labels", "matrix"),
    "curve": ("rounds", "mistakes"),
    "features": ("kind", "weights", "ignored_names"),
}
"""And of those that have more parts, these: later versions may tell more beside them."""


def record(service: Service, fleet: Fleet) -> dict[str, list[Exchange]]:
    """Ask a service about a fleet.

    `found` changes nothing and can be asked again and again; `done` reveals what waits and learns a little more;
    `left` is how the models are then.
    """
    looks = [("GET", f"/{about}", None) for model in fleet.models for about in _looks_at(model)]
    feedback = [body for path, body in fleet.repeated if path == "/feedback"]
    contradictions = [("/feedback", _other_label(body)) for body in feedback[-3:]]
    found = [*looks, *(("POST", *one) for one in (*fleet.repeated, *fleet.refused, *contradictions))]
    reveals = [
        ("POST", "/feedback", {"prediction_id": prediction_id, "label": label})
        for prediction_id, label in fleet.waiting
    ]
    return {
        "found": [_ask(service, *request) for request in found],
        "done": [_ask(service, *request) for request in (*reveals, *_more_rounds(fleet))],
        "left": [_ask(service, *request) for request in (*looks, *reveals[::10])],
    }


def _looks_at(model: str) -> tuple[str, str]:
    return f"models/{model}/weights", f"stats/{model}"


def _other_label(body: dict[str, Any]) -> dict[str, Any]:
    """A reveal that contradicts the first one."""
    other = {-1: 1, 1: -1, "a": "b", "b": "a", "c": "a"}
    return {**body, "label": other[body["label"]]}


def _more_rounds(fleet: Fleet) -> list[tuple[str, str, dict[str, Any]]]:
    """One more of the last round of some models, under another id."""
    last = {body["model"]: body for path, body in fleet.repeated if path == "/learn"}
    return [("POST", "/learn", {**body, "id": f"{model}:more"}) for model, body in [*last.items()][::5]]


def _ask(service: Service, method: str, path: str, body: Any) -> Exchange:
    answer = service.client.request(method, path, json=body)
    assert answer.status_code < 500, answer.text
    return {
        "method": method,
        "path": path,
        "body": body,
        "status": answer.status_code,
        "answer": answer.json(),
        "replayed": "idempotent-replay" in answer.headers,
    }


def assert_same(service: Service, exchanges: list[Exchange]) -> None:
    """The service gives the same answers, in their order."""
    for told in exchanges:
        answered = _ask(service, told["method"], told["path"], told["body"])
        assert _comparable(answered) == _comparable(told), told


def _comparable(told: Exchange) -> Exchange:
    answer = told["answer"]
    if told["status"] >= 400:
        answer = answer["code"]
    elif told["path"].startswith("/stats/"):
        answer = stable_statistics(answer)
    else:  # which later versions tell as well
        answer = {name: value for name, value in answer.items() if name != "probability"}
    return {**told, "answer": answer}


def stable_statistics(stats: dict[str, Any]) -> dict[str, Any]:
    kept = {name: stats[name] for name in STABLE}
    for name, parts in STABLE_PARTS.items():
        kept[name] = {part: stats[name][part] for part in parts if part in stats[name]}
    return kept


def save(path: Path, content: Any) -> None:
    path.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9))


def load(path: Path) -> Any:
    return json.loads(lzma.decompress(path.read_bytes()))
