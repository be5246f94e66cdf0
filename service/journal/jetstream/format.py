"""The settings of the streams, and the version of their format with the migrations from each version to the next.

The version is stored in the state stream. A replica that is too old for the streams refuses to start; one that is newer
migrates them first.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from service.errors import ClusterUnusable, NewerSchema
from service.journal.jetstream.link.api import STREAM_NOT_FOUND, Api, ApiError, Message
from service.journal.jetstream.streams import Streams
from service.journal.jetstream.subjects import Subjects

FORMAT_VERSION = 3
"""Raise it with every change that an older replica could not read: messages, subjects, or the states in snapshots."""

UNMARKED = 1
"""The version of streams without a version: 0.1.0 wrote them, or they were created a moment ago."""

SAME_NAME_SECONDS = 120
"""How long the cluster recognises a second copy of an event that has no id."""

AGE_SECONDS_MIN = 0.1  # the cluster takes no less

Step = Callable[[Streams], Awaitable[None]]


def wanted_streams(subjects: Subjects, *, replicas: int, ids_kept_seconds: float) -> list[dict[str, Any]]:
    """The settings that the streams must have.

    The log may have `deny_delete`, as older versions have made it: then nothing can be forgotten.
    """
    common: dict[str, Any] = {
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": replicas,
        "allow_direct": True,
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        "duplicate_window": SAME_NAME_SECONDS * 10**9,
    }
    age = max(ids_kept_seconds, AGE_SECONDS_MIN)
    window = min(SAME_NAME_SECONDS, age)
    ids = {"max_age": round(age * 1e9), "duplicate_window": round(window * 1e9)}
    return [
        {**common, "name": subjects.log, "subjects": [subjects.lifecycles, subjects.events]},
        {**common, "name": subjects.ids, "subjects": [subjects.known_ids], "max_msgs_per_subject": 1, **ids},
        {**common, "name": subjects.state, "subjects": subjects.derived, "max_msgs_per_subject": 1},
    ]


async def make_or_check(api: Api, subjects: Subjects, wanted: list[dict[str, Any]]) -> None:
    """Create the streams that are missing; ClusterUnusable if one cannot be created or has other settings."""
    for stream in wanted:
        try:
            found = await api.request(f"STREAM.INFO.{stream['name']}")
        except ApiError as error:
            if error.refusal != STREAM_NOT_FOUND:
                raise _unusable(stream, error) from error
            try:
                found = await api.request(f"STREAM.CREATE.{stream['name']}", stream)
            except ApiError as refusal:
                raise _unusable(stream, refusal) from refusal
        before = subjects.before.get(stream["name"], [])
        if sorted(found["config"]["subjects"]) == sorted(before):  # a migration adds what can be added
            stream = {**stream, "subjects": before}
        compare(stream, found["config"])


def compare(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """ClusterUnusable if the settings of a stream differ, naming every difference."""
    differences = [
        f"{name} is {found.get(name)!r} instead of {value!r}"
        for name, value in wanted.items()
        if (
            sorted(found.get(name) or []) != sorted(value) if name == "subjects" else found.get(name) != value
        )
    ]
    if differences:
        raise ClusterUnusable(
            f"the stream {wanted['name']} exists, but {'; '.join(differences)}: give every replica the same"
            " settings, edit the stream, or take another NOVIKOFF_NATS_PREFIX"
        )


def _unusable(stream: dict[str, Any], error: ApiError) -> ClusterUnusable:
    return ClusterUnusable(f"the stream {stream['name']} cannot be created: {error.detail}")


async def _from_1(streams: Streams) -> None:
    """Only snapshots have changed, and each is migrated when it is read (`engine/models/state_migrations.py`)."""


async def _from_2(streams: Streams) -> None:
    """From here on every message has a digest. Where that begins is noted for each stream.

    The state stream gets a subject that 0.1.0 does not expect: so that refuses to start, though it does not know that
    streams have versions.
    """
    api, subjects = streams.api, streams.subjects
    config = await api.config(subjects.state)
    if sorted(config["subjects"]) != sorted(subjects.derived):
        await api.request(f"STREAM.UPDATE.{subjects.state}", {**config, "subjects": subjects.derived})
    last = {stream: await api.last_seq(stream) for stream in subjects.streams}
    last[subjects.state] += 2  # this note, and the version after it
    # If another replica is quicker, what it has noted counts.
    await streams.publisher.publish(subjects.unsealed, msgspec.json.encode(last), expected=0)


STEPS: dict[int, Step] = {1: _from_1, 2: _from_2}
"""By the version that a step starts from. A step may be interrupted, or run by two replicas at once."""


async def bring_up_to_date(streams: Streams) -> None:
    """Migrate the streams to FORMAT_VERSION; NewerSchema if a newer program has written them."""
    subjects = streams.subjects
    found = await _told(streams.api, subjects)
    version = _version(found.data, subjects) if found is not None else UNMARKED
    if version > FORMAT_VERSION:
        raise NewerSchema(
            f"the stream {subjects.state} says that the journal has format {version}, and this program supports"
            f" {FORMAT_VERSION}: run the newer Novikoff that wrote it"
        )
    for step in range(version, FORMAT_VERSION):
        await STEPS[step](streams)
    if version < FORMAT_VERSION:
        # If another replica is quicker, it has written the same.
        told_at = found.seq if found is not None else 0
        await streams.publisher.publish(subjects.format, str(FORMAT_VERSION).encode(), expected=told_at)


async def _told(api: Api, subjects: Subjects) -> Message | None:
    """The message with the version; None only if no server has it: else digests would be taken for content."""
    found = await api.last_from_leader(subjects.state, subjects.format)
    if found is not None or not await api.last_seq(subjects.state):
        return found
    read = partial(api.last_from_leader, subjects.state, subjects.format)
    return await api.from_each_leader(read, subjects.state)


def _version(data: bytes, subjects: Subjects) -> int:
    if not data.isdigit():
        raise ClusterUnusable(
            f"the message {subjects.format} should hold the version of the streams, but does not"
        )
    return int(data)


async def read_unsealed(api: Api, subjects: Subjects) -> dict[str, int]:
    """By stream, its last message that has no digest; ClusterUnusable if no server can tell."""
    read = partial(api.last_from_leader, subjects.state, subjects.unsealed)
    if found := await api.from_each_leader(read, subjects.state):
        return msgspec.json.decode(found.data, type=dict[str, int])
    raise ClusterUnusable(f"no server has the message {subjects.unsealed} of the stream {subjects.state}")
