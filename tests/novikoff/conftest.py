"""Both clients under the same tests."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from novikoff import AsyncClient, Client
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS

Connect = Callable[..., Any]
PATIENT = {"timeout_seconds": PATIENCE_SECONDS, "retry_seconds": PATIENCE_SECONDS}
"""A slow machine is no reason for a retry or for giving up: tests say what is."""


class Awaited:
    """An AsyncClient whose calls are run to their ends, so that one test can use either client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            given = method(*args, **kwargs)
            return self._runner.run(given if inspect.iscoroutine(given) else _all(given))

        return call

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.fixture(params=["waiting", "awaited"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of either kind, which have much time unless the test says otherwise."""
    clients: list[Any] = []
    kind = Client if request.param == "waiting" else Awaited

    def connect_one(*args: Any, **options: Any) -> Any:
        clients.append(kind(*args, **PATIENT | options))
        return clients[-1]

    yield connect_one
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect, service: Service) -> Any:
    return connect(service.url)
