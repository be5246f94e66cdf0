"""The version of the streams' format, stored in the state stream, and the migrations from each version to the next.

A replica that is too old for the streams refuses to start; one that is newer migrates them first.
"""

from collections.abc import Awaitable, Callable

import msgspec

from service.errors import ClusterUnusable, NewerSchema
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.subjects import Subjects

FORMAT_VERSION = 3
"""Raise it with every change that an older replica could not read: messages, subjects, or the states in snapshots."""

UNMARKED = 1
"""The version of streams without a version: 0.1.0 wrote them, or they were created a moment ago."""

Step = Callable[[Api, Publisher, Subjects], Awaitable[None]]


async def _from_1(api: Api, publisher: Publisher, subjects: Subjects) -> None:
    """Only snapshots have changed, and each is migrated when it is read (`engine/models/state_steps.py`)."""


async def _from_2(api: Api, publisher: Publisher, subjects: Subjects) -> None:
    """From here on every message has a digest. Where that begins is noted for each stream.

    The state stream gets a subject that 0.1.0 does not expect: so that refuses to start, though it does not know that
    streams have versions.
    """
    config = await api.config(subjects.state)
    if sorted(config["subjects"]) != sorted(subjects.derived):
        await api.request(f"STREAM.UPDATE.{subjects.state}", {**config, "subjects": subjects.derived})
    last = {stream: await api.last_seq(stream) for stream in subjects.streams}
    last[subjects.state] += 2  # this note, and the version after it
    # If another replica is quicker, what it has noted counts.
    await publisher.publish(subjects.unsealed, msgspec.json.encode(last), expected=0)


STEPS: dict[int, Step] = {1: _from_1, 2: _from_2}
"""By the version that a step starts from. A step may be interrupted, or run by two replicas at once."""


async def bring_up_to_date(api: Api, publisher: Publisher, subjects: Subjects) -> None:
    """Migrate the streams to FORMAT_VERSION; NewerSchema if a newer program has written them."""
    found = await _told(api, subjects)
    version = _version(found.data, subjects) if found is not None else UNMARKED
    if version > FORMAT_VERSION:
        raise NewerSchema(
            f"the stream {subjects.state} says that the journal has format {version}, and this program knows"
            f" {FORMAT_VERSION}: run the newer Novikoff that wrote it"
        )
    for step in range(version, FORMAT_VERSION):
        await STEPS[step](api, publisher, subjects)
    if version < FORMAT_VERSION:
        # If another replica is quicker, it has written the same.
        told_at = found.seq if found is not None else 0
        await publisher.publish(subjects.format, str(FORMAT_VERSION).encode(), expected=told_at)


async def _told(api: Api, subjects: Subjects) -> Message | None:
    """The message with the version; None only if no server has it: else digests would be taken for content."""
    found = await api.last_from_leader(subjects.state, subjects.format)
    if found is not None or not await api.last_seq(subjects.state):
        return found
    async with api.leaders(subjects.state) as leaders:
        async for _ in leaders:
            found = await api.last_from_leader(subjects.state, subjects.format)
            if found is not None:
                break
    return found


def _version(data: bytes, subjects: Subjects) -> int:
    if not data.isdigit():
        raise ClusterUnusable(
            f"the message {subjects.format} ought to be the version of the streams, and is not"
        )
    return int(data)


async def read_unsealed(api: Api, subjects: Subjects) -> dict[str, int]:
    """By stream, its last message that has no digest; ClusterUnusable if no server can tell."""
    async with api.leaders(subjects.state) as leaders:
        async for _ in leaders:
            found = await api.last_from_leader(subjects.state, subjects.unsealed)
            if found is not None:
                return msgspec.json.decode(found.data, type=dict[str, int])
    raise ClusterUnusable(f"no server has the message {subjects.unsealed} of the stream {subjects.state}")
