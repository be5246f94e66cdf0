"""A connection keeps nothing of a request that was answered, and nothing at all once its client has gone."""

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from uvicorn.server import ServerState

from service.runtime.byte_budget import ByteBudget
from service.web.http.addresses import Proxies
from service.web.http.connection import FREE_BYTES, Connection, protocol_for
from service.web.http.connection_limits import ConnectionLimiter

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def refuse(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer without reading the body, as to a request without a key."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def ends() -> AsyncIterator[tuple[ServerState, Client]]:
    """A server with one connection, whose first request was answered, and the client."""
    state = ServerState()
    make = protocol_for(
        refuse,
        limiter=ConnectionLimiter(1, 1, Proxies([])),
        held=ByteBudget(10**6),
        bytes_max=10**6,
        head_bytes_max=10**5,
        quick_paths=frozenset({"/learn"}),
    )
    server = await asyncio.get_running_loop().create_server(lambda: make(None, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(post(b"{}"))
    await reader.readuntil(b"\r\n\r\n")
    yield state, (reader, writer)
    writer.close()
    server.close()


def connection_of(state: ServerState) -> Connection:
    (connection,) = state.connections
    return cast(Connection, connection)


async def answered(connection: Connection) -> None:
    while connection.exchange is None or not connection.exchange.response_complete:
        await asyncio.sleep(0)


def post(body: bytes, more: bytes = b"") -> bytes:
    return b"POST /learn HTTP/1.1\r\nhost: here\r\n%bcontent-length: %d\r\n\r\n%b" % (more, len(body), body)


@pytest.mark.parametrize("more", [b"", b"x: " + b"y" * 50_000 + b"\r\n"])
async def test_an_idle_connection_keeps_neither_head_nor_body(
    ends: tuple[ServerState, Client], more: bytes
) -> None:
    state, (reader, writer) = ends
    writer.write(post(b"x" * 1_000, more))
    await reader.readuntil(b"\r\n\r\n")
    connection = connection_of(state)
    assert connection.exchange is not None and connection.exchange.response_complete
    kept = gc.get_referents(connection, connection.exchange)
    assert not [each for each in kept if isinstance(each, list | bytes) and len(each) > 0]
    assert connection.exchange.scope == {}
    assert 0 < connection.held_bytes < 2_000, "the cached head of the first request, and no more"


async def test_cached_heads_are_counted_until_the_client_goes(ends: tuple[ServerState, Client]) -> None:
    connection = connection_of(ends[0])
    for number in range(9):
        before = connection.held_bytes
        connection.data_received(post(b"{}", b"x: %d%b\r\n" % (number, b"y" * 1_000)))
        await answered(connection)
        assert connection.held_bytes >= before + 2_000 or len(connection.head_cache) == 1
        assert 2_000 * (len(connection.head_cache) - 1) <= connection.held_bytes < FREE_BYTES
    connection.connection_lost(None)
    assert connection.held_bytes == 0


async def test_small_pieces_of_a_body_count_with_what_they_take(ends: tuple[ServerState, Client]) -> None:
    connection = connection_of(ends[0])
    before = connection.held_bytes
    head = b"POST /other HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
    connection.data_received(head + b"2\r\nxy\r\n" * 1_000)
    assert connection.exchange is not None
    pieces = connection.exchange.pieces
    assert connection.held_bytes - before >= sum(map(sys.getsizeof, pieces)) + sys.getsizeof(pieces)


async def test_a_large_body_behind_a_cached_head_is_counted(ends: tuple[ServerState, Client]) -> None:
    connection = connection_of(ends[0])
    connection.data_received(post(b"x" * FREE_BYTES))
    assert connection.held_bytes >= FREE_BYTES


async def test_a_connection_that_was_lost_does_not_wait_for_the_garbage_collector(
    ends: tuple[ServerState, Client],
) -> None:
    state, (_, writer) = ends
    connection = weakref.ref(connection_of(state))
    gc.disable()
    try:
        writer.close()
        while state.connections:
            await asyncio.sleep(0.001)
        for _ in range(3):  # the transport lets go of it
            await asyncio.sleep(0)
        assert connection() is None
    finally:
        gc.enable()
