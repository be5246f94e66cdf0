"""Requests that are sent at the same moment."""

import asyncio
from typing import Any

import httpx

from tests.support.replicas import answered, is_to_be_asked_again
from tests.support.service_process import ANSWER_SECONDS, NO_TLS, Service


def at_once(requests: list[tuple[Service, str, dict[str, Any]]]) -> list[httpx.Response]:
    """Post each body to the path of its service; the answers in the same order.

    What a replica could not answer, since another one kept it waiting, is sent again, as clients do.
    """

    async def send() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=ANSWER_SECONDS, verify=NO_TLS) as http:
            return await asyncio.gather(
                *(http.post(one.url + path, json=body) for one, path, body in requests)
            )

    return [
        answered(lambda one=one, path=path, body=body: one.client.post(path, json=body))  # type: ignore[misc]
        if is_to_be_asked_again(answer)
        else answer
        for (one, path, body), answer in zip(requests, asyncio.run(send()), strict=True)
    ]
