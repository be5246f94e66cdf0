"""Following a stream in its order, whatever happens to servers and connections."""

import asyncio
import logging
import os
import time
from asyncio import Task
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from service.errors import JournalUnavailable
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.connecting import Link
from service.runtime.cooperative import Turns, end, keep_running, run_once
from service.runtime.logs import LogLimiter

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.5
SILENCE_SECONDS = 2.0
"""A consumer from which neither messages nor heartbeats come for so long is replaced."""

CHECK_END_SECONDS = 1.0
"""How often the end of the stream is compared with the last message that came."""

STUCK_CHECKS = 3
"""After so many comparisons without progress, though there are messages to come, the consumer is replaced."""

FORGOTTEN_AFTER_SECONDS = 60
"""After so long the server removes a consumer whose replica has gone."""

APART_MAX_US = 1_000_000
"""By so much this machine's clock may differ from the cluster's before that one counts."""

LOG_EVERY_SECONDS = 60.0

STOPPED_SECONDS = 2.0
"""A process that has not ticked for so long was stopped (SIGSTOP, a paused machine): what it knows is out of date."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_up() -> float:
    """A clock that goes on while this process is stopped and, where there is one, while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Contact:
    """Whether this replica knows where the log ends, by a recent answer of the cluster.

    A replica that is cut off, or whose process was stopped and goes on, does not know what the others have done
    meanwhile. It counts as out of touch until it has asked for the end of the log and got an answer. Contact is lost
    when the cluster was silent for `seconds`, or when this process was stopped. `tick` it often.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ticked_at = self._heard_at = self._went_on_at = seconds_up()
        self._cluster_us = 0
        self._log_limit = LogLimiter(LOG_EVERY_SECONDS)

    def tick(self) -> float:
        """Note that the process runs; the time by `seconds_up`."""
        now = seconds_up()
        if now - self._ticked_at > STOPPED_SECONDS:
            self._went_on_at = now
        self._ticked_at = now
        return now

    def heard(self, asked_at: float, cluster_us: int) -> None:
        """Note an answer to the question for the end of the log, which was asked at `asked_at` (a `tick`).

        `cluster_us` is the time by the clock of the server that answered.
        """
        self._heard_at = asked_at
        self._cluster_us = cluster_us

    def corrected_us(self, own_us: int) -> int:
        """The time by this machine's clock, or as near to it as `APART_MAX_US` from the cluster's time allows.

        So a machine whose clock is wrong puts no wrong times into the log. The cluster's time is reckoned from its last
        answer; before the first, nothing is corrected.
        """
        if not self._cluster_us:
            return own_us
        cluster_us = self._cluster_us + round(self.silent_seconds * 1e6)
        if abs(own_us - cluster_us) <= APART_MAX_US:
            return own_us
        if (held_back := self._log_limit.turn()) is not None:
            seconds = (own_us - cluster_us) / 1e6
            fields = {"seconds": round(seconds, 3), "others": held_back}
            log.warning(
                "the clocks of this machine and of the cluster differ by %.1f seconds", seconds, extra=fields
            )
        return cluster_us + APART_MAX_US if own_us > cluster_us else cluster_us - APART_MAX_US

    @property
    def silent_seconds(self) -> float:
        return seconds_up() - self._heard_at

    def why_lost(self) -> str | None:
        """Why contact is lost, in words for people; None if it is not."""
        self.tick()
        if self._heard_at < self._went_on_at:
            return "this replica was paused and has not caught up yet"
        if self.silent_seconds > self._seconds:
            return f"no message from the journal's cluster for {self.silent_seconds:.0f} seconds"
        return None


class Follower:
    """Calls `take` with each message of a stream, in order and once, and `passed` with its sequence number after that.

    If `take` raises, the process ends: a replica that leaves out a message would differ from the others for ever.
    `contact` is called with each answer to the question for the end of the stream.
    """

    def __init__(
        self,
        link: Link,
        api: Api,
        stream: str,
        subjects: list[str],
        take: Callable[[Message], Awaitable[None]],
        passed: Callable[[int], None] = lambda seq: None,
        contact: Contact | None = None,
        *,
        all_of_stream: bool = False,
        missing: Callable[[int, int], Awaitable[list[Message]]] | None = None,
    ) -> None:
        """`missing`: what is to be taken in the place of messages between two others that no longer exist.

        `all_of_stream`: the stream has no other subjects.

        Then no filter is needed. With one, the server counts the matching messages whenever a consumer is created,
        which takes half a second with 700,000 subjects.
        """
        self._link = link
        self._api = api
        self._stream = stream
        self._subjects = subjects
        self._filter = [] if all_of_stream else subjects
        self._take = take
        self._passed = passed
        self._contact = contact
        self._missing = missing
        self._subscription: Subscription | None = None
        self._taking = asyncio.Lock()
        self._expected = 1  # the number that the consumer gives to the next message
        self._heard_at = 0.0
        self._turns = Turns()
        self._needs_restart = False  # a message was lost, or none come any more: a new consumer is needed
        self._stuck_checks = 0
        self._checking: Task[None] | None = None
        self._stream_end = 0  # the last message of the stream, when its end was last asked for
        self._empty_through = 0  # up to this number there is no message to come: the rest was purged
        self.position = 0
        """The last message that was taken, or the end of the stream at the start."""
        self.lag = 0
        """How many messages are known to be still to come."""
        self.behind_seconds = 0.0
        """How old the last message was when it was taken."""

    async def start(self, after: int) -> None:
        self.position = after
        await self._create_consumer()
        self._tasks = [
            keep_running(f"following {self._stream}", self._watch()),
            keep_running(f"looking at the end of {self._stream}", self._watch_end()),
        ]

    async def reach(self, seq: int, seconds: float) -> None:
        """Wait until this replica has come so far."""
        deadline = monotonic() + seconds
        while self.position < seq:
            if monotonic() > deadline:
                raise JournalUnavailable("this replica lags behind the others")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        await end([*self._tasks, *([self._checking] if self._checking is not None else [])])
        await self._drop_consumer()

    async def _create_consumer(self) -> None:
        """Create a consumer that starts after `position`, in place of the old one."""
        await self._drop_consumer()
        async with self._taking:
            pass
        client = self._link.client
        inbox = client.new_inbox()
        self._expected = 1
        self._needs_restart = False

        async def received(message: Msg) -> None:
            async with self._taking:  # the consumer before may still be busy with its last message
                if subscription is self._subscription:
                    await self._received(message)

        subscription = self._subscription = await client.subscribe(inbox, cb=received)
        self._heard_at = monotonic()
        self._consumer = f"follow-{os.urandom(8).hex()}"
        await self._ask_for_consumer(inbox)
        self._heard_at = monotonic()

    async def _ask_for_consumer(self, inbox: str) -> None:
        """Ask for the consumer; the same question again, after its answer was lost, is answered as the first."""
        config: dict[str, Any] = {
            "name": self._consumer,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position + 1,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": round(HEARTBEAT_SECONDS * 1e9),
            "inactive_threshold": FORGOTTEN_AFTER_SECONDS * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self._filter:  # an empty one is another consumer in the servers' eyes when it is asked for again
            config["filter_subjects"] = self._filter
        await self._api.request(
            f"CONSUMER.CREATE.{self._stream}.{self._consumer}",
            {"stream_name": self._stream, "config": config, "action": "create"},
        )

    async def _drop_consumer(self) -> None:
        """Delete the consumer; if its server cannot be reached, that removes it by itself later."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and self._link.is_up:
            try:
                await subscription.unsubscribe()
                await self._link.client.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._consumer}")
            except NatsError as error:
                log.debug("nats: a consumer could not be deleted and will time out: %s", error)

    async def _received(self, message: Msg) -> None:
        self._heard_at = monotonic()
        headers = message.headers or {}
        if headers.get("Status") == "100":
            await self._control(message, headers)
            return
        tokens = message.reply.split(".")
        at = 5 if len(tokens) == 9 else 7  # newer servers tell the domain and the account first
        seq, count, stored_ns, pending = (int(token) for token in tokens[at : at + 4])
        if count != self._expected:
            self._needs_restart = True  # a message was lost: start again after the last one that came
            return
        self._expected += 1
        self.behind_seconds = time.time() - stored_ns / 1e9
        found = self._api.unsealed(self._stream, Message(message.subject, seq, message.data))
        await self._take_or_stop(seq, [found] if found is not None else [])
        self.position = seq
        # `pending` is of when the server sent the message, which is long ago if this process was stopped meanwhile.
        self.lag = max(pending, self._stream_end - seq)
        self._passed(seq)
        await self._turns.give()  # the client hands over all messages that have come without a pause

    async def _take_or_stop(self, seq: int, found: list[Message]) -> None:
        """Take the message with this number, and before it what stands in the places of those that did not come."""
        before = seq if found else seq + 1
        try:
            if self._missing is not None and before > self.position + 1:
                found = [*await self._missing(self.position, before), *found]
            for message in found:
                await self._take(message)
        except Exception as error:
            log.critical("message %d of %s cannot be applied: stopping", seq, self._stream, exc_info=error)
            os._exit(1)

    async def _control(self, message: Msg, headers: dict[str, str]) -> None:
        """Handle a heartbeat or a flow control message."""
        if message.reply:
            await self._link.client.publish(message.reply)
            return
        stalled = headers.get("Nats-Consumer-Stalled")
        if stalled:
            await self._link.client.publish(stalled)
        if int(headers.get("Nats-Last-Consumer", "0")) >= self._expected:
            self._needs_restart = True

    async def _watch(self) -> None:
        """Replace a consumer that has lost a message or has been silent for too long."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self._link.is_up:
                continue
            if self._needs_restart or monotonic() - self._heard_at > SILENCE_SECONDS:
                log.debug("nats: following %s restarts after message %d", self._stream, self.position)
                try:
                    await self._create_consumer()
                except (JournalUnavailable, NatsError, OSError) as error:
                    log.debug("nats: following %s is interrupted: %s", self._stream, error)

    async def _watch_end(self) -> None:
        while True:
            await asyncio.sleep(CHECK_END_SECONDS)
            await self.check_end()

    async def check_end(self, seconds: float | None = None) -> None:
        """Ask for the end of the stream and wait for the answer, for at most `seconds`. Never raises."""
        if self._checking is None or self._checking.done():
            self._checking = run_once(f"asking where {self._stream} ends", self._check_end())
        await asyncio.wait([self._checking], timeout=seconds)

    async def _check_end(self) -> None:
        before, asked_at = self.position, self._contact.tick() if self._contact is not None else 0.0
        try:
            self._stream_end, cluster_us = await self._api.end_of(self._stream)
            self.lag = max(0, self._stream_end - max(self.position, self._empty_through))
            if self._contact is not None:
                self._contact.heard(asked_at, cluster_us)
            if self._stream_end <= before or self.position > before:
                self._stuck_checks = 0
            else:
                await self._check_stuck(before)
        except (JournalUnavailable, NatsError) as error:
            log.debug("nats: cannot find the end of %s: %s", self._stream, error)

    async def _check_stuck(self, before: int) -> None:
        """No message has come though there are more: the consumer may be stuck on a server that lags behind."""
        end = self._stream_end
        more = await self._next(before + 1)
        if self.position > before:
            return
        if more is None:  # the rest was purged, or this server no longer leads: so `position` stays
            self._stuck_checks = 0
            if self._missing is not None and self._empty_through != end:
                await self._take_rest(before, end)
            self._empty_through = end
            self.lag = 0
            return
        self._empty_through = 0
        self.lag = end - before
        self._stuck_checks += 1
        if self._stuck_checks >= STUCK_CHECKS:
            self._stuck_checks = 0
            self._needs_restart = True

    async def _take_rest(self, after: int, end: int) -> None:
        """Take the last messages of the stream, which its leader does not deliver, if another server has them."""
        assert self._missing is not None
        rest = await self._missing(after, end + 1)
        async with self._taking:
            for message in rest if self.position == after else ():
                self.position = message.seq - 1  # what is missing before it was looked for
                await self._take_or_stop(message.seq, [message])
                self.position = message.seq
                self._passed(self.position)

    async def _next(self, seq: int) -> Message | None:
        """The first message at or after `seq` that is followed."""
        found = [
            await self._api.next_from_leader(self._stream, subject, seq, once=True)
            for subject in self._subjects
        ]
        return min((one for one in found if one is not None), key=lambda one: one.seq, default=None)
