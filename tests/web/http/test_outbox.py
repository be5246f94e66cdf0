"""Answers leave in their order at the end of a turn of the loop, or when there are many."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import cast

import pytest

from service.web.http.connection import OUTBOX_MAX, Outbox

Ends = tuple[asyncio.Transport, socket.socket]


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """A transport, and the socket at its other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    yield cast(asyncio.Transport, transport), theirs
    transport.close()
    theirs.close()


async def test_a_few_wait_for_the_end_of_the_turn(ends: Ends) -> None:
    transport, client = ends
    outbox = Outbox()
    for answer in (b"a", b"b", b"c"):
        outbox.put(transport, answer, asyncio.get_running_loop())
    with pytest.raises(BlockingIOError):
        client.recv(10)
    await asyncio.sleep(0)
    assert client.recv(10) == b"abc"


async def test_many_do_not_wait(ends: Ends) -> None:
    transport, client = ends
    outbox = Outbox()
    for _ in range(OUTBOX_MAX):
        outbox.put(transport, b"a", asyncio.get_running_loop())
    assert client.recv(100) == b"a" * OUTBOX_MAX


async def test_a_client_that_has_gone_spoils_nothing_for_the_others(ends: Ends) -> None:
    transport, client = ends
    gone, other = socket.socketpair()
    other.setblocking(False)
    leaving, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=gone)
    outbox = Outbox()
    outbox.put(cast(asyncio.Transport, leaving), b"x", asyncio.get_running_loop())
    outbox.put(transport, b"a", asyncio.get_running_loop())
    leaving.close()
    outbox.send()
    assert client.recv(10) == b"a"
    assert await asyncio.get_running_loop().sock_recv(other, 10) == b""
    other.close()
