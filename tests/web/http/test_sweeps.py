"""The sweep that ends slow clients: a service that was held up itself does not blame them for it."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from service.commands.serve import Server
from service.runtime.listening import listen
from service.settings import Settings
from service.web.http.connection_limits import SlowClients
from tests.support.waiting import eventually_async

QUESTION = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
END = b'"live"}'

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def swept(data: Path) -> AsyncIterator[tuple[SlowClients, Client]]:
    """The sweep of a service in this very loop, and a client of it that has been answered once."""
    threshold = gc.get_threshold()
    server = Server(Settings(data=data), connections_max=10)
    sockets = listen("127.0.0.1", 0)
    running = asyncio.create_task(server._serve(sockets))
    try:
        await eventually_async(lambda: server.started)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname()[:2])
        writer.write(QUESTION)
        assert b" 200 " in await reader.readuntil(END)
        yield server._slow_clients, (reader, writer)
        writer.close()
    finally:
        server.should_exit = True
        await running
        gc.unfreeze()
        gc.set_threshold(*threshold)


@pytest.mark.slow
async def test_what_came_while_the_service_was_held_up_is_answered(tmp_path: Path) -> None:
    async with swept(tmp_path) as (slow_clients, (reader, writer)):
        slow_clients.sweep()
        writer.write(QUESTION)  # which the service has not read yet when it looks for idle connections
        slow_clients.sweep(lambda: monotonic() + 3600)
        assert b" 200 " in await reader.readuntil(END)


@pytest.mark.slow
async def test_a_connection_that_is_idle_for_too_long_is_closed(tmp_path: Path) -> None:
    async with swept(tmp_path) as (slow_clients, (reader, _)):
        for second in range(8):
            slow_clients.sweep(lambda second=second: monotonic() + second)  # type: ignore[misc]
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.readuntil(END)
