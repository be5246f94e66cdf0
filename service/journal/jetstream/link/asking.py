"""Questions between replicas, over the cluster's servers and outside of its streams: nothing of them is kept."""

import asyncio
import secrets
from time import monotonic

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from service.errors import JournalUnavailable
from service.journal.jetstream.link.connecting import DOWN_SECONDS, Link
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Answer

ANSWER_SECONDS = 2.0
GONE_SECONDS = DOWN_SECONDS
"""How long a replica has to be missing until it counts as gone: one that just connects again is there soon."""

RETRY_SECONDS = 0.1
ALL_SECONDS = 0.3
"""How long the answers to a question to all are waited for: nobody knows how many will come."""

EVERYONE = "everyone"
"""Stands for all replicas; the name of one is made of hexadecimal digits."""

FROM = "Novikoff-From"
"""The header of a question to all with the name of the replica that asks, which need not answer itself."""

WAITING_MAX = 1_000
"""Questions that may wait for an answer here; more are dropped, and whoever asked asks again."""


class Asking:
    """The questions of this replica to others, and theirs to it."""

    def __init__(self, link: Link, subjects: Subjects) -> None:
        self._link = link
        self._subjects = subjects
        self.replica = secrets.token_hex(4)

    async def answer(self, answer: Answer) -> None:
        await self._answer(self.replica, answer)

    async def answer_all(self, answer: Answer) -> None:
        await self._answer(EVERYONE, answer)

    async def _answer(self, name: str, answer: Answer) -> None:
        async def respond(message: Msg) -> None:
            if message.headers is None or message.headers.get(FROM) != self.replica:
                await message.respond(await answer(message.data))

        where = self._subjects.replica(name)
        await self._link.client.subscribe(where, cb=respond, pending_msgs_limit=WAITING_MAX)
        await self._link.client.flush()

    async def ask_all(self, question: bytes) -> list[bytes]:
        self._link.check()
        client, until = self._link.client, monotonic() + ALL_SECONDS
        inbox, found = client.new_inbox(), []
        try:
            answers = await client.subscribe(inbox)
            try:
                where = self._subjects.replica(EVERYONE)
                await client.publish(where, question, reply=inbox, headers={FROM: self.replica})
                while (left := until - monotonic()) > 0:
                    found.append((await answers.next_msg(timeout=left)).data)
            finally:
                await answers.unsubscribe()
        except NatsTimeoutError:
            pass  # nobody else has answered in time
        except NatsError as error:
            raise JournalUnavailable("the other replicas cannot be asked") from error
        return found

    async def ask(self, replica: str, question: bytes) -> bytes | None:
        if replica in ("", self.replica):
            return None
        gone_at = monotonic() + GONE_SECONDS
        while True:
            self._link.check()
            try:
                where = self._subjects.replica(replica)
                return (await self._link.client.request(where, question, timeout=ANSWER_SECONDS)).data
            except NoRespondersError:
                if monotonic() > gone_at:
                    return None
            except NatsError as error:
                raise JournalUnavailable("the replica that has to be asked does not answer") from error
            await asyncio.sleep(RETRY_SECONDS)
