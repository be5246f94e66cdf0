"""Requests that are sent at the same moment."""

import asyncio
from typing import Any

import httpx

from tests.running import NO_TLS, Service


def at_once(requests: list[tuple[Service, str, dict[str, Any]]]) -> list[httpx.Response]:
    """Post each body to the path of its service; the answers in the same order."""

    async def send() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=30, verify=NO_TLS) as http:
            return await asyncio.gather(
                *(http.post(one.url + path, json=body) for one, path, body in requests)
            )

    return asyncio.run(send())
