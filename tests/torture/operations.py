"""What a process did to its data directory, in order: the log that the simulator works on."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class Operation(msgspec.Struct, array_like=True, frozen=True):
    """Names are those of files in the data directory."""


class Present(Operation, tag="present", frozen=True):
    """A file that was there, and durable, before anything was recorded."""

    name: str
    data: bytes


class Create(Operation, tag="create", frozen=True):
    name: str


class Write(Operation, tag="write", frozen=True):
    name: str
    offset: int
    data: bytes


class Truncate(Operation, tag="truncate", frozen=True):
    name: str
    size: int


class Sync(Operation, tag="sync", frozen=True):
    """All that was written to the file is durable; unless it failed: then nobody knows what is."""

    name: str
    failed: bool = False


class Rename(Operation, tag="rename", frozen=True):
    name: str
    to: str


class Delete(Operation, tag="delete", frozen=True):
    name: str


class SyncDirectory(Operation, tag="sync-directory", frozen=True):
    """The names of all files are durable."""


class Note(Operation, tag="note", frozen=True):
    """Not an operation: the service, or a client of it, says how far it has come."""

    kind: str
    content: Any


AnyOperation = Present | Create | Write | Truncate | Sync | Rename | Delete | SyncDirectory | Note

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyOperation).decode


_write = os.write  # that of the system, whoever may wrap it


class Log:
    """Operations are appended by several processes, each with one call, so that their order is that of the calls."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, operation: AnyOperation) -> None:
        body = _encode(operation)
        whole = len(body).to_bytes(4, "big") + body
        assert _write(self.file, whole) == len(whole)


def read_log(path: Path) -> list[AnyOperation]:
    return list(_messages(path.read_bytes()))


def _messages(content: bytes) -> Iterator[AnyOperation]:
    at = 0
    while at < len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4], "big")
        yield _decode(content[at + 4 : end])
        at = end
