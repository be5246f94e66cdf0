"""Copies of the streams in one file, made by the servers while replicas write, and streams made from such a file.

The file is a tar with two members a stream: what it is like (`NAME.json`) and the servers' own snapshot of it
(`NAME.snapshot`). The log is copied last, since nothing that is derived from it may be newer than it is.
"""

import asyncio
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any

import msgspec
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from service.errors import JournalUnavailable
from service.journal.jetstream.link.api import STREAM_NOT_FOUND, Api, ApiError
from service.journal.jetstream.link.connecting import Access, Link
from service.journal.jetstream.subjects import Subjects

CHUNK_BYTES = 131_072
PIECE_SECONDS = 15.0
"""How long no piece may come. Then the copy is begun again: a server may not have heard yet where we listen."""

ATTEMPTS = 4


class NoCopy(JournalUnavailable):
    """A file that cannot be used, or streams that are in the way; in words."""


def _names(prefix: str) -> list[str]:
    return [*reversed(Subjects(prefix).streams)]


async def copy_streams(access: Access, prefix: str, file: Path) -> int:
    """Copy the streams of a service into a new file; how many events the log has."""
    events = 0
    with tarfile.open(file, "x") as archive:
        file.chmod(0o600)
        async with Link(access) as link:
            api = Api(link)
            for stream in _names(prefix):
                with TemporaryFile(dir=file.parent) as content:
                    told = await _snapshot(link, api, stream, content)
                    _add(archive, f"{stream}.json", io.BytesIO(msgspec.json.encode(told)))
                    _add(archive, f"{stream}.snapshot", content)
                events = told["state"]["messages"]
    return events


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    member.mode = 0o600
    content.seek(0)
    archive.addfile(member, content)


async def _snapshot(link: Link, api: Api, stream: str, content: IO[bytes]) -> dict[str, Any]:
    """What a stream is like at one moment, with its content written to a file."""
    for _ in range(ATTEMPTS):
        content.seek(0)
        content.truncate()
        try:
            return await _snapshot_once(link, api, stream, content)
        except TimeoutError:
            continue
    raise NoCopy(f"no server sends the stream {stream}")


async def _snapshot_once(link: Link, api: Api, stream: str, content: IO[bytes]) -> dict[str, Any]:
    inbox = link.client.new_inbox()
    pieces: asyncio.Queue[Msg] = asyncio.Queue()
    inbound = await link.client.subscribe(inbox, cb=pieces.put)
    try:
        wanted = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, "no_consumers": True}
        told = await api.request(f"STREAM.SNAPSHOT.{stream}", wanted)
        while (piece := await asyncio.wait_for(pieces.get(), PIECE_SECONDS)).data:
            await asyncio.to_thread(content.write, piece.data)
            if piece.reply:
                await piece.respond(b"")  # asks for the next ones
        if (piece.headers or {}).get("Status", "").startswith(("4", "5")):
            raise NoCopy(f"the servers stopped copying the stream {stream}: {piece.headers}")
        return {"config": told["config"], "state": told["state"]}
    finally:
        await inbound.unsubscribe()


async def restore_streams(access: Access, prefix: str, file: Path) -> int:
    """Make the streams of a file again, where there are none of their names; how many events the log has."""
    try:
        archive = tarfile.open(file)  # noqa: SIM115  (closed below)
    except tarfile.TarError as error:
        raise NoCopy(f"{file} is not a backup of a cluster: {error}") from None
    names = _names(prefix)
    with archive:
        members = [f"{name}.{kind}" for name in names for kind in ("json", "snapshot")]
        if sorted(archive.getnames()) != sorted(members):
            raise NoCopy(
                f"{file} has no copies of the streams {', '.join(names)}: is NOVIKOFF_NATS_PREFIX right?"
            )
        async with Link(access) as link:
            api = Api(link)
            await _check_absent(api, names)
            for name in names:
                messages = await _restore(link, api, name, archive)
    return messages


async def _check_absent(api: Api, names: Sequence[str]) -> None:
    for name in names:
        try:
            await api.config(name)
        except ApiError as error:
            if error.refusal != STREAM_NOT_FOUND:
                raise
        else:
            raise NoCopy(
                f"the stream {name} already exists: stop all replicas and delete it, or use another cluster"
            )


async def _restore(link: Link, api: Api, name: str, archive: tarfile.TarFile) -> int:
    head, content = archive.extractfile(f"{name}.json"), archive.extractfile(f"{name}.snapshot")
    assert head is not None and content is not None  # they are files, or getnames would not have them
    kept = msgspec.json.decode(head.read(), type=dict[str, Any])
    told = await api.request(f"STREAM.RESTORE.{name}", kept)
    while piece := content.read(CHUNK_BYTES):
        await _send(link, told["deliver_subject"], piece)
    done = msgspec.json.decode(await _send(link, told["deliver_subject"], b""))
    if "error" in done:
        raise NoCopy(f"the servers refuse the stream {name}: {done['error'].get('description')}")
    found = await api.state(name)
    if any(found[what] != kept["state"][what] for what in ("messages", "first_seq", "last_seq")):
        raise NoCopy(f"the restored stream {name} differs from the copy: {found} instead of {kept['state']}")
    return int(found["messages"])


async def _send(link: Link, subject: str, piece: bytes) -> bytes:
    """Send again while our server has not heard yet that another one listens there."""
    deadline = monotonic() + PIECE_SECONDS
    while True:
        try:
            return (await link.client.request(subject, piece, timeout=4 * PIECE_SECONDS)).data
        except NoRespondersError:
            if monotonic() > deadline:
                raise NoCopy("no server accepts the copy") from None
        await asyncio.sleep(0.02)
