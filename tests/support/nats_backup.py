"""Streams copied out of a running cluster and into another, as `nats stream backup` and `nats stream restore` do."""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

CHUNK_BYTES = 65_536
ANSWER_SECONDS = 60.0
ATTEMPT_SECONDS = 15.0
ATTEMPTS = 10


class Backup(NamedTuple):
    """What a stream was like, and what it held."""

    config: dict[str, Any]
    state: dict[str, Any]
    chunks: list[bytes]


async def back_up(client: Client, stream: str) -> Backup:
    """A stream as it is at one moment, while others write to it."""
    for _ in range(ATTEMPTS):
        # The server that has the stream may not have heard yet where we listen, and then a piece is lost.
        with suppress(TimeoutError):
            return await asyncio.wait_for(_back_up(client, stream), ATTEMPT_SECONDS)
    raise AssertionError(f"no server gives us the stream {stream}")


async def _back_up(client: Client, stream: str) -> Backup:
    chunks: list[bytes] = []
    complete = asyncio.Event()

    async def take(message: Msg) -> None:
        if message.data:
            chunks.append(message.data)
        else:
            complete.set()
        if message.reply:
            await message.respond(b"")

    inbox = client.new_inbox()
    inbound = await client.subscribe(inbox, cb=take)
    wanted = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, "no_consumers": True}
    told = await _ask(client, f"$JS.API.STREAM.SNAPSHOT.{stream}", json.dumps(wanted).encode())
    await complete.wait()
    await inbound.unsubscribe()
    return Backup(told["config"], told["state"], chunks)


async def restore(client: Client, backup: Backup) -> None:
    """Make the stream again; there must be none of its name."""
    wanted = json.dumps({"config": backup.config, "state": backup.state}).encode()
    told = await _ask(client, f"$JS.API.STREAM.RESTORE.{backup.config['name']}", wanted)
    for chunk in backup.chunks:
        await _send(client, told["deliver_subject"], chunk)
    done = json.loads(await _send(client, told["deliver_subject"], b""))
    assert "error" not in done, done


async def _send(client: Client, subject: str, chunk: bytes) -> bytes:
    """Send again while our server has not heard yet that another one listens there."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return (await client.request(subject, chunk, timeout=ANSWER_SECONDS)).data
        except NoRespondersError:
            assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def _ask(client: Client, subject: str, body: bytes) -> dict[str, Any]:
    answer = await client.request(subject, body, timeout=ANSWER_SECONDS)
    told: dict[str, Any] = json.loads(answer.data)
    assert "error" not in told, told
    return told
