"""Removing what is no longer needed in a way that leaves no bytes which somebody may want to be forgotten.

What is purged stays in the servers' files for long, and cannot be overwritten any more. So the snapshots and pages of
models that have rounds with tags are deleted by their numbers, which overwrites them. That takes a server some
milliseconds for each, and a purge next to nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.messages import Blob, Pointer, unwrap
from service.journal.jetstream.subjects import Subjects

T = TypeVar("T")

AT_ONCE = 64


class Cleaner:
    def __init__(self, api: Api, subjects: Subjects) -> None:
        self._api = api
        self._subjects = subjects

    async def clean(self, life: int, pointer: Pointer, revision: int) -> None:
        """Overwrite what this revision of a model's pointer does not name and no later one will."""
        if not pointer.snapshots:
            return
        s = self._subjects
        named = set(_named(s, life, pointer))
        newest = pointer.snapshots[-1].seq
        unnamed: list[str] = []
        kinds = s.snapshots_and_pages_of(life)
        if pointer.erased is not None:
            kinds.append(s.erased_of(life))
        for kind in kinds:
            for subject in await self._api.subjects(s.state, kind):
                written_for = s.revision_in(subject)
                is_over = s.number_in(subject) <= newest if written_for is None else written_for < revision
                if is_over and subject not in named:
                    unnamed.append(subject)
        await self.overwrite_all(s.state, unnamed)

    async def overwrite_event(self, message: Message) -> None:
        """Overwrite a message of the log, and before it its body if that is elsewhere. It may be done again."""
        s = self._subjects
        body = unwrap(message.data).body
        if isinstance(body, Blob):
            parts = (s.blob(body.life, body.name, part) for part in range(body.parts))
            await self.overwrite_all(s.state, parts)
        await self._api.overwrite(s.log, message.seq)

    async def overwrite_all(self, stream: str, subjects: Iterable[str]) -> None:
        """Overwrite the newest message of each subject."""
        await at_once(lambda subject: self._api.overwrite_last(stream, subject), subjects)


async def at_once(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Do something with each of them, with AT_ONCE at a time."""
    rest = iter(items)
    while some := list(islice(rest, AT_ONCE)):
        await asyncio.gather(*map(do, some))


def _named(s: Subjects, life: int, pointer: Pointer) -> Iterable[str]:
    for kept in pointer.snapshots:
        yield from (s.snapshot(life, kept.seq, part) for part in range(kept.parts))
    for page in pointer.pages:
        yield from (s.page(life, page.through, page.edition, part) for part in range(page.parts))
    if (erased := pointer.erased) is not None:
        first, last, edition = erased.first, erased.last, erased.edition
        yield from (s.erased(life, first, last, edition, part) for part in range(erased.parts))
