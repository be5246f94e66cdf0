"""People and programs with keys, and services that know them."""

import hashlib
from collections.abc import Callable
from typing import Any

import httpx

from service.web.access.keys import make_key
from tests.support.service_process import Service, http_client, problem_of

Start = Callable[..., Service]


class Holder:
    """Somebody with a key. `line` is what the service is told of it."""

    def __init__(self, name: str, role: str, prefix: str = "") -> None:
        self.secret, key = make_key(name, role, prefix)
        self.line = key.line
        self.headers = {"authorization": f"Bearer {self.secret}"}

    def at(self, service: Service) -> "Holder":
        """Use this service from now on."""
        self.client = http_client(base_url=service.url, headers=self.headers)
        service.clients.append(self.client)
        return self

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def predict(self, model: str, features: Any, **more: Any) -> httpx.Response:
        return self.post("/predict", {"model": model, "features": features, **more})

    def learn(self, model: str, features: Any, label: Any, **more: Any) -> httpx.Response:
        return self.post("/learn", {"model": model, "features": features, "label": label, **more})

    def reveal(self, prediction_id: str, label: Any) -> httpx.Response:
        return self.post("/feedback", {"prediction_id": prediction_id, "label": label})

    def stream(self, lines: bytes, query: str = "") -> httpx.Response:
        return self.client.post(
            f"/stream{query}", content=lines, headers={"content-type": "application/x-ndjson"}
        )


def lines_of(*holders: Holder) -> str:
    return ",".join(holder.line for holder in holders)


def good(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return problem_of(answer)


def assert_no_secret_in(text: str, *holders: Holder) -> None:
    """Neither a key nor any long part of one, nor its hash."""
    for holder in holders:
        body = holder.secret.removeprefix("nvk_")
        digest = hashlib.sha256(holder.secret.encode()).hexdigest()
        for part in (*(body[i : i + 12] for i in range(len(body) - 11)), digest[:16]):
            assert part not in text
