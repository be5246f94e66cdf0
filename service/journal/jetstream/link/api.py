"""Requests to JetStream: reading and purging messages, and what streams there are."""

import asyncio
import base64
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service.errors import JournalUnavailable
from service.journal.jetstream.link.connecting import Link
from service.journal.seals import SEAL_BYTES, Damaged, unseal

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_MESSAGE = 10037
STREAM_NOT_FOUND = 10059
TRY_AGAIN = frozenset({10008, 10009, 10118})
"""Error codes of a cluster that has no leader at the moment, or whose servers are still connecting to each other."""

ANSWER_SECONDS = 2.0
"""How long to wait for an answer until the request is sent again: it may be lost with its connection."""

START_SECONDS = 30.0
"""How long requests are repeated at a start, before `limit_retries`."""
RETRY_SECONDS = 0.1
BATCH_MESSAGES = 1_000
BATCH_BYTES = 8_388_608
LEAD_SECONDS = 10.0
"""How long a server may take to become a stream's leader."""

ASK_AGAIN_SECONDS = 30.0
"""How long servers are not made leaders again after all were asked in vain: each time writes wait for a moment."""

DELETED_MAX = 100_000
"""Of a stream with more deleted messages inside, the server is not asked which they are."""

AWAY_SECONDS = 10.0
"""How long a server may lag behind until it counts as away."""

AT_ONCE = 64

_json = msgspec.json.Encoder().encode


class ApiError(JournalUnavailable):
    """JetStream refuses a request, and would refuse it again."""

    def __init__(self, refusal: int, description: str) -> None:
        super().__init__(f"the journal's cluster refused the request: {description}")
        self.refusal = refusal
        """JetStream's error code."""


class Message(NamedTuple):
    subject: str
    seq: int
    data: bytes
    digest: bytes = b""
    """The digest that the message was published with; empty if it is older than digests."""


class Api:
    """Requests to the cluster, repeated while it has no leader or does not answer; JournalUnavailable in the end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._seconds = START_SECONDS
        self._is_limited = False
        self._leading = asyncio.Lock()
        self._ask_again_at: dict[tuple[str, ...], float] = {}
        self.unsealed_through: dict[str, int] = {}
        """By stream, the last message without a digest. Messages of other streams are not checked."""
        self.damage_found = 0
        """How many messages were not what was published, or were missing on the server that was asked."""

    def limit_retries(self, seconds: float) -> None:
        """From now on repeat requests for so long, and not at all without a connection. Called after the start."""
        self._seconds = seconds
        self._is_limited = True

    def unsealed(self, stream: str, message: Message) -> Message | None:
        """The message without its digest; None if that does not fit: then it counts as missing."""
        if message.seq <= self.unsealed_through.get(stream, math.inf):
            return message
        try:
            data = unseal(message.data, message.subject)
        except Damaged:
            self.report_damage(f"message {message.seq} of {stream}: its digest does not match")
            return None
        return Message(message.subject, message.seq, data, message.data[-SEAL_BYTES:])

    def report_damage(self, what: str) -> None:
        self.damage_found += 1
        log.error("the journal is damaged: %s", what)

    async def request(self, name: str, body: object = None, *, once: bool = False) -> dict[str, Any]:
        """Ask the leader; ApiError if it refuses. `once`: do not repeat it, since the caller does."""
        payload = b"" if body is None else _json(body)

        async def ask() -> dict[str, Any]:
            answer = await self._link.client.request(f"$JS.API.{name}", payload, timeout=ANSWER_SECONDS)
            content: dict[str, Any] = msgspec.json.decode(answer.data)
            error = content.get("error")
            if error is not None:
                code = error.get("err_code", 0)
                failure = ApiError(code, error.get("description", ""))
                raise _Busy(failure) if code in TRY_AGAIN or error.get("code") == 503 else failure
            return content

        return await self._with_retries(ask, once=once)

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject: from any server or, if that one has none, from the leader."""

        async def ask() -> Message | None:
            direct = f"$JS.API.DIRECT.GET.{stream}.{subject}"
            answer = await self._link.client.request(direct, timeout=ANSWER_SECONDS)
            return None if _status(answer) else self.unsealed(stream, _message(answer))

        return await self._with_retries(ask) or await self.last_from_leader(stream, subject)

    async def last_from_leader(self, stream: str, subject: str) -> Message | None:
        return await self._from_leader(stream, {"last_by_subj": subject})

    async def next_from_leader(
        self, stream: str, subjects: str, seq: int, *, once: bool = False
    ) -> Message | None:
        """The first message at or after `seq`."""
        return await self._from_leader(stream, {"seq": seq, "next_by_subj": subjects}, once=once)

    async def numbered(self, stream: str, seq: int) -> Message | None:
        """The message with this sequence number."""
        return await self._from_leader(stream, {"seq": seq})

    async def _from_leader(
        self, stream: str, wanted: dict[str, Any], *, once: bool = False
    ) -> Message | None:
        try:
            found = (await self.request(f"STREAM.MSG.GET.{stream}", wanted, once=once))["message"]
        except ApiError as error:
            if error.refusal == NO_MESSAGE:
                return None
            raise
        data = base64.b64decode(found.get("data", ""))
        return self.unsealed(stream, Message(found["subject"], found["seq"], data))

    async def scan(
        self, stream: str, subjects: str, *, after: int, limit: int = -1
    ) -> AsyncIterator[Message]:
        """The messages after the sequence number `after`, in order, to the last one that the leader has."""
        while limit:
            wanted = BATCH_MESSAGES if limit < 0 else min(limit, BATCH_MESSAGES)
            found, complete = await self._batch(stream, subjects, after + 1, wanted)
            if complete and len(found) < wanted:
                # The answer may come from a server that lags behind, so the leader is asked whether that was all.
                more = await self.next_from_leader(
                    stream, subjects, found[-1].seq + 1 if found else after + 1
                )
                if more is None:
                    limit = len(found)
                else:
                    found.append(more)
            for message in found:
                yield message
                after = message.seq
            limit = limit - len(found) if limit >= 0 else limit

    async def _batch(self, stream: str, subjects: str, seq: int, count: int) -> tuple[list[Message], bool]:
        """Up to `count` messages from any server, and whether that was all it has."""
        body = _json({"seq": seq, "next_by_subj": subjects, "batch": count, "max_bytes": BATCH_BYTES})

        async def ask() -> tuple[list[Message], bool]:
            client = self._link.client
            inbox = client.new_inbox()
            found: list[Message] = []
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            heard_at = monotonic()

            async def take(message: Msg) -> None:
                nonlocal heard_at
                heard_at = monotonic()
                status = _status(message)
                if not status:
                    if (one := self.unsealed(stream, _message(message))) is not None:
                        found.append(one)
                elif not done.done():
                    rest = int((message.headers or {}).get("Nats-Num-Pending", "0"))
                    if status in ("204", "404"):
                        done.set_result(rest == 0)
                    else:
                        done.set_exception(NatsError(f"status {status}"))

            inbound = await client.subscribe(inbox, cb=take)
            try:
                await client.publish(f"$JS.API.DIRECT.GET.{stream}", body, reply=inbox)
                while not done.done():
                    if monotonic() - heard_at > ANSWER_SECONDS:
                        raise TimeoutError
                    await asyncio.wait([done], timeout=ANSWER_SECONDS)
                return found, done.result()
            finally:
                if not client.is_closed:
                    await inbound.unsubscribe()

        return await self._with_retries(ask)

    async def scan_leader(self, stream: str, subjects: str, *, after: int) -> AsyncIterator[Message]:
        """The same from the leader only, one by one: `scan` asks servers whose copies may be damaged."""
        while (found := await self.next_from_leader(stream, subjects, after + 1)) is not None:
            yield found
            after = found.seq

    async def from_each_leader(self, read: Callable[[], Awaitable[T | None]], *streams: str) -> T | None:
        """Let each server that keeps the streams lead them in turn, until one has what is read; None if none has.

        Only a leader can be asked for its own copy. The one whose copy has what was sought goes on leading.
        JournalUnavailable in the end if a server could not lead, or at once if all were asked in vain recently.
        """
        async with self._leading:
            if monotonic() < self._ask_again_at.get(streams, 0.0):
                raise JournalUnavailable(f"every server was asked for {streams[0]} within the last seconds")
            leader, others = await self._servers(streams[0])
            names = [leader, *(each["name"] for each in others)]
            silent: list[str] = []
            for name in names:
                if all([await self._let_lead(stream, name) for stream in streams]):
                    if found := await read():
                        return found
                    if all([await self._leads(stream, name) for stream in streams]):
                        continue
                silent.append(name)  # it is away, or another replica has let another one lead meanwhile
            if len(names) > 1:
                self._ask_again_at[streams] = monotonic() + ASK_AGAIN_SECONDS
            if silent:
                raise JournalUnavailable(
                    f"the server {silent[0]} cannot be asked for its copy of {streams[0]}"
                )
        return None

    async def reaches(self, stream: str, seq: int) -> bool | None:
        """Whether the copy of the server that leads a stream goes up to a message; None if not."""
        return await self.last_seq(stream) >= seq or None

    async def _servers(self, stream: str) -> tuple[str, list[dict[str, Any]]]:
        """The server that leads a stream, and what is known of the others that keep it."""
        cluster = (await self.request(f"STREAM.INFO.{stream}")).get("cluster") or {}
        return cluster.get("leader", ""), cluster.get("replicas") or []

    async def _leads(self, stream: str, name: str) -> bool:
        """Whether a server leads a stream. One that is kept once has no other."""
        leader, others = await self._servers(stream)
        return not others or leader == name

    async def _let_lead(self, stream: str, name: str) -> bool:
        """Whether a server leads a stream now."""
        deadline, has_asked = monotonic() + LEAD_SECONDS, False
        while True:
            if await self._leads(stream, name):
                return True
            if monotonic() > deadline:
                return False
            if not has_asked:
                has_asked = True
                try:
                    wanted = {"placement": {"preferred": name}}
                    await self.request(f"STREAM.LEADER.STEPDOWN.{stream}", wanted, once=True)
                except ApiError:
                    return False  # it is away
                except JournalUnavailable:
                    pass  # there is no leader at the moment
            await asyncio.sleep(RETRY_SECONDS)

    async def unexplained(self, stream: str, after: int, before: int) -> list[int]:
        """The numbers between two messages that the stream should have, since they were not deleted."""
        if (await self.state(stream)).get("num_deleted", 0) > DELETED_MAX:
            return []
        state = (await self.request(f"STREAM.INFO.{stream}", {"deleted_details": True}))["state"]
        deleted = set(state.get("deleted") or [])
        numbers = range(max(after + 1, state["first_seq"]), min(before, state["last_seq"] + 1))
        return [seq for seq in numbers if seq not in deleted]

    async def last_of_any_copy(self, stream: str, subject: str) -> Message | None:
        """The newest message of a subject, from whichever server can read it; None only if there is none.

        The list of subjects knows also of messages that a server cannot read.
        """
        found = await self.last_from_leader(stream, subject)
        if found is not None or not await self.subjects(stream, subject):
            return found
        self.report_damage(f"{subject} of {stream} was not delivered; asking every server for its copy")
        found = await self.from_each_leader(lambda: self.last_from_leader(stream, subject), stream)
        if found is None and await self.subjects(stream, subject):
            raise JournalUnavailable(f"no server can read the message {subject} of the stream {stream}")
        return found

    async def purge(self, stream: str, subjects: str, *, below: int | None = None) -> int:
        """Purge messages, with `below` only those with smaller sequence numbers; how many there were."""
        body: dict[str, Any] = {"filter": subjects}
        if below is not None:
            body["seq"] = below
        return int((await self.request(f"STREAM.PURGE.{stream}", body)).get("purged", 0))

    async def overwrite(self, stream: str, seq: int) -> bool:
        """Delete a message so that its server overwrites its bytes, which a purge does not; False if it was gone."""
        try:
            await self.request(f"STREAM.MSG.DELETE.{stream}", {"seq": seq})
        except ApiError:
            if await self.numbered(stream, seq) is not None:
                raise
            return False
        return True

    async def overwrite_last(self, stream: str, subjects: Iterable[str]) -> None:
        """The same with the newest message of each subject that has one."""

        async def overwrite(subject: str) -> None:
            found = await self.last_from_leader(stream, subject)
            if found is not None:
                await self.overwrite(stream, found.seq)

        await in_batches(overwrite, subjects)

    async def check_copies(self, *streams: str) -> None:
        """JournalUnavailable if a server that keeps one of the streams is away or lags behind: it would not overwrite
        what is deleted meanwhile."""
        deadline = monotonic() + AWAY_SECONDS
        for stream in streams:
            while behind := await self._servers_behind(stream):
                if monotonic() > deadline:
                    raise JournalUnavailable(
                        f"the NATS server {behind[0]} is unreachable or behind, so nothing can be erased there"
                    )
                await asyncio.sleep(RETRY_SECONDS)

    async def _servers_behind(self, stream: str) -> list[str]:
        _, others = await self._servers(stream)
        behind = [one for one in others if not one.get("current") or one.get("offline") or one.get("lag")]
        return [one["name"] for one in behind]

    async def subjects(self, stream: str, filtered: str) -> dict[str, int]:
        """The subjects that match and have messages, and how many."""
        found: dict[str, int] = {}
        while True:
            wanted = {"subjects_filter": filtered, "offset": len(found)}
            info = await self.request(f"STREAM.INFO.{stream}", wanted)
            page = info["state"].get("subjects") or {}
            found |= page
            if not page or len(found) >= info.get("total", 0):
                return found

    async def config(self, stream: str) -> dict[str, Any]:
        config: dict[str, Any] = (await self.request(f"STREAM.INFO.{stream}"))["config"]
        return config

    async def state(self, stream: str) -> dict[str, Any]:
        state: dict[str, Any] = (await self.request(f"STREAM.INFO.{stream}"))["state"]
        return state

    async def last_seq(self, stream: str) -> int:
        return int((await self.state(stream))["last_seq"])

    async def end_of(self, stream: str) -> tuple[int, int]:
        """A stream's last sequence number, and the time by its leader's clock. Not repeated."""
        info = await self.request(f"STREAM.INFO.{stream}", once=True)
        return int(info["state"]["last_seq"]), round(datetime.fromisoformat(info["ts"]).timestamp() * 1e6)

    async def _with_retries(self, ask: Callable[[], Awaitable[T]], *, once: bool = False) -> T:
        deadline = monotonic() + (0.0 if once else self._seconds)
        while True:
            if self._is_limited:
                self._link.check()
            try:
                return await ask()
            except (NatsError, OSError, msgspec.DecodeError, _Busy) as error:
                if monotonic() + RETRY_SECONDS > deadline:
                    why = str(error) or type(error).__name__
                    raise JournalUnavailable(f"the journal's cluster does not respond: {why}") from error
            await asyncio.sleep(RETRY_SECONDS)


async def in_batches(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Do something with each of them, with AT_ONCE at a time."""
    rest = iter(items)
    while some := list(islice(rest, AT_ONCE)):
        await asyncio.gather(*map(do, some))


class _Busy(Exception):
    pass


def _status(message: Msg) -> str:
    return (message.headers or {}).get("Status", "")


def _message(message: Msg) -> Message:
    headers = message.headers or {}
    return Message(headers["Nats-Subject"], int(headers["Nats-Sequence"]), message.data)
