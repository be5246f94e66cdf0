"""Publishing messages: sent in order, repeated until the cluster has answered.

A message whose answer is lost is sent again. So the caller says which message of the subject it has to follow
(`expected`), or gives it a unique name (`name`): then the cluster refuses the second copy.
"""

import asyncio
import logging
import re
from asyncio import Future
from collections import OrderedDict, deque
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service.errors import JournalFull, JournalUnavailable, OutcomeUnknown
from service.journal.jetstream.link.connecting import Link
from service.journal.seals import seal
from service.runtime.cooperative import end, keep_running
from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

WRONG_LAST_SEQUENCE = 10071
COMPETITOR_IN_FLIGHT = 10164
NO_ROOM = frozenset({10002, 10023, 10047})
"""Error codes of a full store: by the account's limit, the server's, or its reserved storage."""

NOT_STORED = 10077
_no_room_words = re.compile(r"maximum (bytes|messages)")
"""In the description of a NOT_STORED error, if a limit of the stream itself is the reason."""

ANSWER_SECONDS = 3.0
"""After so long without an answer a message is sent again."""

ROOM_BYTES = 4_096
"""Room for the headers of a message, its place in the chain of its model and its digest."""

BACKOFF_SECONDS = 0.1
FULL_BACKOFF_SECONDS = 1.0
FULL_SENT_A_SECOND = 1_000
"""While the store is full, persistent messages are sent again at most at this rate."""

FULL_SECONDS = 5.0
"""A store that has refused nothing for so long counts as not full: one small message that fits proves nothing."""

COMPETITOR_SECONDS = 0.02
TICK_SECONDS = 0.05

_decode = msgspec.json.Decoder().decode
_sequence = re.compile(r"(\d+)$")


class Ack(NamedTuple):
    """The cluster's answer to a message."""

    seq: int
    """Its sequence number or, if it was not stored, that of the last message of its subject."""
    stored: bool
    """False if the last message of its subject is not the expected one."""


@dataclass(slots=True, eq=False)
class _Outgoing:
    number: int
    subject: str
    payload: bytes
    headers: dict[str, str]
    future: Future[Ack]
    deadline: float | None = None
    sent_at: float = 0.0
    due: float = 0.0


class Publisher:
    """Publishes messages in the order of the calls. A message that is not answered within `seconds` fails."""

    def __init__(self, link: Link, *, seconds: float) -> None:
        self._link = link
        self._seconds = seconds
        self._numbers = 0
        self._queue: deque[_Outgoing] = deque()
        self._queued = asyncio.Event()
        self._under_way: OrderedDict[int, _Outgoing] = OrderedDict()
        """By number, the one sent longest ago first."""
        self._later: list[_Outgoing] = []
        self._log_limit = LogLimiter()
        self._is_failing = False
        self._was_full_at = -FULL_SECONDS
        self.failures = 0
        self.acknowledged: dict[str, int] = {}
        """By stream, the last message that the cluster has taken from here."""
        self.seals = False
        """Whether messages get a digest of their subject and content."""

    @property
    def payload_bytes_max(self) -> int:
        return self._link.payload_bytes_max - ROOM_BYTES

    async def start(self) -> None:
        client = self._link.client
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._answered)
        self._tasks = [
            keep_running("sending to the cluster", self._send()),
            keep_running("repeating what was sent", self._tick()),
        ]

    async def stop(self) -> None:
        await end(self._tasks)
        for outgoing in [*self._queue, *self._later, *self._under_way.values()]:
            self._fail(outgoing, "the service is stopping")

    def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        expected: int | None = None,
        name: str | None = None,
        persistent: bool = False,
    ) -> Future[Ack]:
        """Store a message if the last one of its subject is `expected` (0: none), or if its name is new.

        The future fails with OutcomeUnknown after `seconds`, or JournalUnavailable if it was never sent, or with
        JournalFull. A `persistent` message is sent again until it is stored, or not stored since another one is there.
        """
        headers: dict[str, str] = {}
        if expected is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        if name is not None:
            headers["Nats-Msg-Id"] = name
        self._numbers += 1
        if self.seals:
            payload = seal(payload, subject)
        future: Future[Ack] = asyncio.get_running_loop().create_future()
        outgoing = _Outgoing(self._numbers, subject, payload, headers, future)
        if not persistent:
            outgoing.deadline = monotonic() + self._seconds
            if self._link.is_down_for_long:
                self._fail(outgoing, "no server of its cluster can be reached")
                return outgoing.future
        self._queue.append(outgoing)
        self._queued.set()
        return outgoing.future

    async def _send(self) -> None:
        client = self._link.client
        while True:
            if not self._queue or not client.is_connected:
                self._queued.clear()
                if not self._queue:
                    await self._queued.wait()
                else:
                    await asyncio.sleep(TICK_SECONDS)
                continue
            outgoing = self._queue.popleft()
            if outgoing.future.done():
                continue
            outgoing.sent_at = monotonic()
            self._under_way[outgoing.number] = outgoing
            try:
                await client.publish(
                    outgoing.subject,
                    outgoing.payload,
                    reply=f"{self._inbox}.{outgoing.number}",
                    headers=outgoing.headers or None,
                )
            except NatsError as error:
                log.debug("nats: not sent: %s", error)
                self._retry_later(outgoing, BACKOFF_SECONDS)

    async def _answered(self, message: Msg) -> None:
        number = int(message.subject.rpartition(".")[2])
        outgoing = self._under_way.pop(number, None)
        if outgoing is None:
            return
        if not message.data:  # the stream has no leader at the moment
            self._retry_later(outgoing, BACKOFF_SECONDS)
            return
        try:
            self._handle_answer(outgoing, _decode(message.data))
        except Exception as error:  # nats-py would swallow it, and a caller waits
            self._log_failure(f"its cluster's response cannot be decoded: {error!r}")
            self._retry_later(outgoing, BACKOFF_SECONDS)

    def _handle_answer(self, outgoing: _Outgoing, answer: dict[str, Any]) -> None:
        error = answer.get("error")
        if error is None:
            stream, seq = answer["stream"], answer["seq"]
            self.acknowledged[stream] = max(seq, self.acknowledged.get(stream, 0))
            self._finish(outgoing, Ack(seq, True))
        elif error.get("err_code") == WRONG_LAST_SEQUENCE:
            found = _sequence.search(error.get("description", ""))
            self._finish(outgoing, Ack(int(found[1]) if found else 0, False))
        elif error.get("err_code") == COMPETITOR_IN_FLIGHT:
            self._retry_later(outgoing, COMPETITOR_SECONDS)
        elif _is_full(error):
            self._refuse_full(outgoing, error["description"])
        else:
            self._log_failure(error.get("description", "unknown error"))
            self._retry_later(outgoing, BACKOFF_SECONDS)

    def _refuse_full(self, outgoing: _Outgoing, why: str) -> None:
        self._was_full_at = monotonic()
        why = f"its cluster is full: {why}"
        if outgoing.deadline is None:
            self._log_failure(why)
            self._retry_later(outgoing, FULL_BACKOFF_SECONDS + len(self._later) / FULL_SENT_A_SECOND)
        else:
            self._fail(outgoing, why, JournalFull)

    def _finish(self, outgoing: _Outgoing, ack: Ack) -> None:
        if self._is_failing and ack.stored and monotonic() - self._was_full_at > FULL_SECONDS:
            self._is_failing = False
            log.info("the journal can be written again")
        if not outgoing.future.done():
            outgoing.future.set_result(ack)

    def _retry_later(self, outgoing: _Outgoing, seconds: float) -> None:
        self._under_way.pop(outgoing.number, None)
        outgoing.due = monotonic() + seconds
        self._later.append(outgoing)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = monotonic()
            while self._under_way:
                oldest = next(iter(self._under_way.values()))
                if now - oldest.sent_at < ANSWER_SECONDS:
                    break
                self._retry_later(oldest, 0.0)
            later, self._later = self._later, []
            for outgoing in later:
                if outgoing.due > now:
                    self._later.append(outgoing)
                elif not self._is_expired(outgoing, now):
                    self._queue.append(outgoing)
            if self._link.is_down_for_long and self._queue:
                self._queue = deque(one for one in self._queue if not self._is_expired(one, now))
            if self._queue:
                self._queued.set()

    def _is_expired(self, outgoing: _Outgoing, now: float) -> bool:
        """Whether a message is done or given up: its time is over, or it was never sent and cannot be."""
        if outgoing.future.done():
            return True
        if outgoing.deadline is None:
            return False
        if now > outgoing.deadline:
            if outgoing.sent_at:
                why = "its cluster does not respond; retry with the same id to find out whether it was done"
                self._fail(outgoing, why, OutcomeUnknown)
            else:
                self._fail(outgoing, "its cluster does not respond")
        elif self._link.is_down_for_long and not outgoing.sent_at:
            self._fail(outgoing, "no server of its cluster can be reached")
        return outgoing.future.done()

    def _fail(
        self, outgoing: _Outgoing, why: str, kind: type[JournalUnavailable] = JournalUnavailable
    ) -> None:
        self._log_failure(why)
        if not outgoing.future.done():
            outgoing.future.set_exception(kind(f"the journal cannot be written: {why}"))
            outgoing.future.exception()  # marks it as seen: if nobody waits for it, asyncio would log it

    def _log_failure(self, why: str) -> None:
        self.failures += 1
        self._is_failing = True
        if (held_back := self._log_limit.turn()) is not None:
            log.error("the journal cannot be written: %s", why, extra={"events": 1, "others": held_back})


def _is_full(error: dict[str, Any]) -> bool:
    """Whether a refusal says that there is no room.

    >>> _is_full({"err_code": 10023}), _is_full({"err_code": 10077, "description": "maximum bytes exceeded"})
    (True, True)
    """
    code = error.get("err_code")
    return code in NO_ROOM or (code == NOT_STORED and bool(_no_room_words.search(error["description"])))
