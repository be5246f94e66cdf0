"""Records on their way to the disk, numbered as they were submitted."""

import sys
from asyncio import Future
from typing import NamedTuple

import msgspec

from service.events import AnyEvent
from service.journal.protocol import Appended
from service.journal.sqlite.records import PendingRecord, Record


class Item(msgspec.Struct, frozen=True):
    """A record, who waits for it, the event in it, and the prediction that need not be written with it."""

    record: Record
    future: Future[Appended] | None
    event: AnyEvent | None = None
    instead_of: PendingRecord | None = None


Numbered = tuple[int, Item]
"""An item and its number among all that were submitted."""

NONE = sys.maxsize
"""The oldest number where there is none."""


class Numbers(NamedTuple):
    """A group, and the oldest number in it: predictions that were held may be older than what stands before them."""

    items: list[Numbered]
    oldest: int


def oldest_of(items: list[Numbered]) -> int:
    return min((number for number, _ in items), default=NONE)
