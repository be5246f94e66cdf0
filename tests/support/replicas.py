"""A service that shares its journal with others, and is asked as clients should ask it."""

from collections.abc import Callable
from typing import Any

import httpx

from tests.support.service_process import Service
from tests.support.waiting import eventually

AGAIN = frozenset({"journal-unavailable", "prediction-under-way", "version-not-reached"})
"""Codes of refusals that pass: another replica had no time to answer, or what it has learned has not come yet."""


def is_to_be_asked_again(answer: httpx.Response) -> bool:
    return answer.status_code == 503 and answer.json()["code"] in AGAIN


def answered(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask until the answer is none of those that pass."""
    answer = ask()

    def is_final() -> bool:
        nonlocal answer
        if is_to_be_asked_again(answer):
            answer = ask()
        return not is_to_be_asked_again(answer)

    eventually(is_final, otherwise=lambda: answer.text)
    return answer


class Replica(Service):
    """Asks again where a client would, since on a busy machine replicas may keep each other waiting."""

    def get(self, path: str) -> dict[str, Any]:
        return _good(answered(lambda: self.client.get(path)))

    def post(self, path: str, body: Any) -> dict[str, Any]:
        return _good(answered(lambda: self.client.post(path, json=body)))


def _good(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    decoded: dict[str, Any] = answer.json()
    return decoded
