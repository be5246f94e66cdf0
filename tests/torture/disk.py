"""A disk as it might be after a power cut: what was synced is there, and of the rest anything may be or not.

The rules are those that file systems promise, and no more. A write is durable once its file was synced; before that,
each sector of it may be on disk or not, whatever came of the writes before and after it. A name (of a file that was
made, renamed or deleted) is durable once its directory was synced. After a sync that failed, what was to be synced may
be lost even if a later sync succeeds, as Linux has it: the pages count as clean.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.torture.operations import (
    AnyOperation,
    Create,
    Delete,
    Present,
    Rename,
    Sync,
    SyncDirectory,
    Truncate,
    Write,
)

Image = dict[str, bytes]
"""The content of each file."""

Keep = Callable[[], bool]
"""Whether the next sector that was not synced is on disk."""

SECTOR_BYTES = (512, 4096)


OVERWRITTEN_KEPT = 50

UNSYNCED, IN_DOUBT, SYNCED = range(3)


@dataclass(slots=True)
class Change:
    """A write, or without data a truncation to `offset` bytes."""

    offset: int
    data: bytes | None
    state: int = UNSYNCED
    """IN_DOUBT after a sync that failed: in the cache, but perhaps never on disk."""


@dataclass(slots=True)
class File:
    durable: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)
    """Since then; those SYNCED are durable too, but stand behind one that is in doubt."""
    overwritten: list[tuple[int, bytes]] = field(default_factory=list)
    """What was there before the last writes, for disks that lose one."""

    def sync(self, *, failed: bool) -> None:
        for change in self.changes:
            if change.state == UNSYNCED:
                change.state = IN_DOUBT if failed else SYNCED
        while self.changes and self.changes[0].state == SYNCED:
            change = self.changes.pop(0)
            if change.data is not None:
                before = bytes(self.durable[change.offset : change.offset + len(change.data)])
                self.overwritten = [*self.overwritten[1 - OVERWRITTEN_KEPT :], (change.offset, before)]
            _apply(self.durable, change.offset, change.data)

    def cached(self) -> bytes:
        """What a process reads that was not cut off."""
        return self.image(lambda: True, max(SECTOR_BYTES))

    def image(self, keep: Keep, sector_bytes: int) -> bytes:
        content = bytearray(self.durable)
        for change in self.changes:
            for offset, data in _sectors(change.offset, change.data, sector_bytes):
                if change.state == SYNCED or keep():
                    _apply(content, offset, data)
        return bytes(content)

    def sectors_at_risk(self, sector_bytes: int) -> int:
        at_risk = [change for change in self.changes if change.state != SYNCED]
        return sum(len(list(_sectors(change.offset, change.data, sector_bytes))) for change in at_risk)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes | None, sector_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    if data is None:
        yield offset, None
        return
    end = offset + len(data)
    at = offset
    while at < end:
        after = min(end, (at // sector_bytes + 1) * sector_bytes)
        yield at, data[at - offset : after - offset]
        at = after


class Disk:
    """Follows a log of operations; `image` tells what may be left if the power goes now."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        """As processes see them."""
        self._durable_names: dict[str, File] = {}
        self._unsynced_names: list[tuple[Create | Rename | Delete, File]] = []
        """Changes of names, and the files that they are about: a name may be another's when the power goes."""

    def follow(self, operation: AnyOperation) -> None:
        match operation:
            case Present(name, data):
                self.names[name] = self._durable_names[name] = File(bytearray(data))
            case Write(name, offset, data):
                self.names[name].changes.append(Change(offset, data))
            case Truncate(name, size):
                self.names[name].changes.append(Change(size, None))
            case Sync(name, failed):
                self.names[name].sync(failed=failed)
            case SyncDirectory():
                self._durable_names = dict(self.names)
                self._unsynced_names.clear()
            case Create() | Rename() | Delete():
                file = File() if isinstance(operation, Create) else self.names[operation.name]
                _rename(self.names, operation, file)
                self._unsynced_names.append((operation, file))

    def cached(self) -> Image:
        """What processes see, and what a kill leaves: all operations."""
        return {name: file.cached() for name, file in self.names.items()}

    def image(self, chance: random.Random, kept: float, *, in_order: bool) -> Image:
        """What a power cut leaves. `kept`: how much of what was not synced happens to be on disk, 0 to 1.

        `in_order`: of each file the first sectors that were written; else any of them.
        """

        def keeping(count: int) -> Keep:
            return _first(round(kept * count)) if in_order else lambda: chance.random() < kept

        sector_bytes = chance.choice(SECTOR_BYTES)
        names = dict(self._durable_names)
        keep = keeping(len(self._unsynced_names))
        for operation, file in self._unsynced_names:
            if keep():
                _rename(names, operation, file)
        return {
            name: file.image(keeping(file.sectors_at_risk(sector_bytes)), sector_bytes)
            for name, file in names.items()
        }


def _first(count: int) -> Keep:
    """The first `count` of those that are asked about."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def _rename(names: dict[str, File], operation: AnyOperation, file: File) -> None:
    match operation:
        case Create(name):
            names[name] = file
        case Delete(name):
            if names.get(name) is file:
                del names[name]
        case Rename(name, to):
            if names.get(name) is file:
                del names[name]
            names[to] = file
