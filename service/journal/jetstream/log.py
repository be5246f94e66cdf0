"""The log as this replica follows it: each event is taken in its order, and what does not come is noticed.

An event that is missing is read from the other servers' copies. If no server has it, or if it was forgotten before it
came, the models that lack it are reloaded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from service.errors import JournalUnavailable, ModelDamaged, ModelUnreadable, NovikoffError
from service.events import AnyEvent, TagForgotten
from service.journal.jetstream.appending import Appender
from service.journal.jetstream.catalogue import Catalogue, Deletion, Entry
from service.journal.jetstream.chains import Chains, Gap, first
from service.journal.jetstream.forgetting import Forgetting
from service.journal.jetstream.link.api import Message
from service.journal.jetstream.messages import Bodies, Opened, Unreadable, decode_summary
from service.journal.jetstream.predictions import Waiting
from service.journal.jetstream.snapshots import Snapshots
from service.journal.jetstream.streams import Streams
from service.journal.jetstream.upkeep import Upkeep
from service.journal.protocol import Apply, Before, Distrust
from service.runtime.logs import LogLimiter

RETRY_SECONDS = 0.05
LOG_EVERY_SECONDS = 10.0

TOLD_MAX = 20
"""So many numbers of messages are named at most."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Log:
    """What becomes of the events of the log, and of the summaries that other replicas store."""

    streams: Streams
    catalogue: Catalogue
    chains: Chains
    bodies: Bodies
    snapshots: Snapshots
    waiting: Waiting
    forgetting: Forgetting | None
    appender: Appender
    upkeep: Upkeep
    apply: Apply
    before: Before | None
    distrust: Distrust | None
    applied: int = 0
    """The last event that was applied."""
    trouble: str | None = None
    """What is missing for good, in words for people."""

    def __post_init__(self) -> None:
        self._api, self._subjects = self.streams.api, self.streams.subjects
        self._log_limit = LogLimiter(LOG_EVERY_SECONDS)

    async def take_event(self, message: Message) -> None:
        """Handle the next event: of this replica or another, of a loaded model or not."""
        opened = await self._until_answered(partial(self.bodies.open, message))
        is_lifecycle = self._subjects.is_lifecycle(message.subject)
        if opened is None:
            if not is_lifecycle:
                life = self._subjects.life_in(message.subject)
                self._lack(life, Gap(f"the body of event {message.seq} cannot be read"))
            return
        while self.before is not None and (busy := self.before(opened.event.model)) is not None:
            await busy
        try:
            counts = self._enter_lifecycle(message, opened) if is_lifecycle else self._enter(message, opened)
            if not counts:
                self.appender.rejected(opened.token)
                return
            self.applied = message.seq
            self.appender.applied(opened.token, message.seq, self.apply(message.seq, opened.event))
        except Gap as gap:
            self.applied = message.seq
            self._lack(self._subjects.life_in(message.subject), gap)
            why = ModelUnreadable(f"the event is recorded, but {gap.detail}")
            self.appender.failed(opened.token, why)
        except ModelDamaged as error:
            self.appender.failed(opened.token, error)

    def _enter_lifecycle(self, message: Message, opened: Opened) -> bool:
        """Enter a creation or a deletion; False if it changes nothing."""
        seq, event = message.seq, opened.event
        before = self.catalogue.get(event.model)
        counts = self.catalogue.take_lifecycle_event(seq, event, opened.blob)
        if counts and before is None:
            self.chains.begin(seq, seq, first(seq, message.digest))
        elif counts and before is not None:
            self.chains.drop(before.life)
            self.waiting.forget(before.life)
            self.snapshots.forget(before.life)
            if self.appender.awaits(opened.token):  # one replica is enough
                self.upkeep.purge(Deletion(event.model, seq, event.at, before.life, before.creation_blob))
        return counts

    def _enter(self, message: Message, opened: Opened) -> bool:
        """Enter any other event; False if its model was deleted before it, Gap if it shows that one is missing."""
        life = self._subjects.life_in(message.subject)
        event: AnyEvent = opened.event
        counts = self.catalogue.take_event(life, message.seq, event)
        self.waiting.take_event(life, event)
        if isinstance(event, TagForgotten):
            self.snapshots.forget(life)
        if counts:
            self.chains.follow(life, message.seq, message.digest, opened.link)
        return counts

    async def take_summary(self, message: Message) -> None:
        life = self._subjects.life_in(message.subject)
        summary = decode_summary(message.data)
        self.catalogue.take_stored_summary(life, message.seq, summary)
        if summary.link.seq <= self.chains.newest(life).seq:
            try:
                self.chains.check(life, summary.link)
            except Gap as gap:
                self._lack(life, Gap(f"another replica has different events: {gap.detail}"))

    def _lack(self, life: int, gap: Gap) -> None:
        """Events of a model did not come: reloading it."""
        entry = self.catalogue.get_life(life)
        if entry is not None:
            self._api.report_damage(f"{entry.model}: {gap.detail}; reloading it")
            self._load_anew(entry)

    def _load_anew(self, entry: Entry) -> None:
        self.chains.drop(entry.life)
        self.snapshots.forget(entry.life)
        if self.distrust is not None:
            self.distrust(entry.model)

    async def missing(self, after: int, before: int) -> list[Message]:
        """What other servers have in the places of events between these two that did not come."""
        found: dict[int, Message] = {}
        await self._until_answered(partial(self._take_forgotten, after, before))
        unexplained = partial(self._api.unexplained, self._subjects.log, after, before)
        if lost := await self._until_answered(unexplained):
            found = await self._from_other_servers(lost)
            lost = [seq for seq in await self._until_answered(unexplained) if seq not in found]
        if lost:
            self.trouble = f"no server has message {lost[0]} of the stream {self._subjects.log}"
            self._api.report_damage(self.trouble)
        return [found[seq] for seq in sorted(found)]

    async def _take_forgotten(self, after: int, before: int) -> None:
        """Load models anew of which events between these two were forgotten before they came."""
        for life in await self.forgetting.lives_between(after, before) if self.forgetting else ():
            await self.waiting.drop_forgotten(life)
            if (entry := self.catalogue.get_life(life)) is not None:
                self._load_anew(entry)

    async def _from_other_servers(self, numbers: list[int]) -> dict[int, Message]:
        log_stream, found = self._subjects.log, dict[int, Message]()
        numbers_told = ", ".join(map(str, numbers[:TOLD_MAX]))
        self._api.report_damage(
            f"of {log_stream} messages were not delivered; asking every server for its copy: {numbers_told}"
        )

        async def read() -> bool | None:
            for seq in numbers:
                if seq not in found and (message := await self._api.numbered(log_stream, seq)) is not None:
                    found[seq] = message
            return len(found) == len(numbers) or None

        with suppress(JournalUnavailable):
            await self._api.from_each_leader(read, log_stream)
        return found

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the cluster answers, since no event may be left out. Unreadable if the answer is damaged."""
        while True:
            try:
                return await ask()
            except Unreadable:
                raise
            except NovikoffError as error:
                if (held_back := self._log_limit.turn()) is not None:
                    log.warning(
                        "applying an event is postponed: %s", error.detail, extra={"others": held_back}
                    )
            await asyncio.sleep(RETRY_SECONDS)
