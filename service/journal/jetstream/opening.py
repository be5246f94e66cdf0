"""The start of a replica: checking the servers and the streams, and reading which models there are.

A cluster whose servers do not sync every write to disk can lose acknowledged events in a power cut. NATS does not tell
clients, but the monitoring address of each server (`http_port`) has it, and how far its copies of streams go.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import msgspec

from service.errors import ClusterUnusable, JournalUnavailable
from service.events import AnyEvent
from service.journal.jetstream.catalogue import Catalogue
from service.journal.jetstream.format import bring_up_to_date, make_or_check, wanted_streams
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.connecting import Link
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import Bodies, decode_event, decode_summary, unwrap
from service.journal.jetstream.streams import Options, Streams
from service.journal.jetstream.subjects import Subjects

ATTEMPTS = 5
RETRY_SECONDS = 0.2
MONITOR_PORT = 8222
ANSWER_SECONDS = 3.0

REMEDY = (
    "start every server with `sync_interval: always` in its `jetstream` section and with `http_port`, name the"
    " monitoring addresses in NOVIKOFF_NATS_MONITOR, or set NOVIKOFF_JOURNAL_ALLOW_UNSYNCED=true to accept the risk"
)

_open = build_opener(ProxyHandler({})).open  # without the proxies of the environment: the servers are near

log = logging.getLogger(__name__)


def prepare(options: Options) -> None:
    """Create the streams that are missing and migrate old ones; StartError if the cluster cannot be used."""
    with ThreadPoolExecutor(1) as thread:  # of its own, since the caller may run in an event loop
        thread.submit(asyncio.run, _prepare(options)).result()


async def _prepare(options: Options) -> None:
    async with Link(options.access) as link:
        if options.monitors:
            await check_synced(options.monitors)
        subjects = Subjects(options.prefix)
        wanted = wanted_streams(
            subjects, replicas=options.replicas, ids_kept_seconds=options.ids_kept_seconds
        )
        streams = Streams(Api(link), Publisher(link, seconds=options.seconds), subjects, options)
        await streams.publisher.start()
        try:
            with as_start_error():
                await make_or_check(streams.api, subjects, wanted)
                await _let_longest_lead(streams.api, options.monitors, subjects)
                await bring_up_to_date(streams)
        finally:
            await streams.publisher.stop()


def monitors_of(servers: tuple[str, ...]) -> tuple[str, ...]:
    """The monitoring addresses of servers, at NATS's usual port.

    >>> monitors_of(("nats://a:4222", "tls://b"))
    ('http://a:8222', 'http://b:8222')
    """
    return tuple(f"http://{urlsplit(server).hostname}:{MONITOR_PORT}" for server in servers)


async def check_synced(monitors: tuple[str, ...]) -> None:
    """ClusterUnusable if a server does not sync every write, or if none can be asked."""
    answers = await asyncio.gather(*(asyncio.to_thread(_syncs, one) for one in monitors))
    unsynced = [one for one, syncs in zip(monitors, answers, strict=True) if syncs is False]
    if unsynced:
        raise ClusterUnusable(
            f"the NATS server at {', '.join(unsynced)} does not sync every write, so a power cut can lose what"
            f" was acknowledged: {REMEDY}"
        )
    silent = [one for one, syncs in zip(monitors, answers, strict=True) if syncs is None]
    if len(silent) == len(monitors):
        raise ClusterUnusable(
            f"no NATS server answers at {', '.join(monitors)} whether it syncs every write: {REMEDY}"
        )
    if silent:
        log.warning("no response from %s: unknown whether every write is synced there", ", ".join(silent))


def _syncs(monitor: str) -> bool | None:
    """Whether a server syncs every write; None if it does not answer."""
    info = _told(monitor, "varz")
    return (
        None if info is None else bool(info.get("jetstream", {}).get("config", {}).get("sync_always", False))
    )


async def longest_copies(monitors: tuple[str, ...], streams: Collection[str]) -> dict[str, tuple[int, int]]:
    """By stream, the last message and the number of messages of the server that has most."""
    longest = dict.fromkeys(streams, (0, 0))
    answers = await asyncio.gather(
        *(asyncio.to_thread(_told, one, "jsz?accounts=true&streams=true") for one in monitors)
    )
    for answer in answers:
        for account in (answer or {}).get("account_details") or []:
            for stream in account.get("stream_detail") or []:
                if (name := stream["name"]) in longest:
                    state = stream["state"]
                    longest[name] = max(longest[name], (state["last_seq"], state["messages"]))
    return longest


def _told(monitor: str, what: str) -> dict[str, Any] | None:
    """What a server answers; None if it does not."""
    try:
        with _open(f"{monitor.rstrip('/')}/{what}", timeout=ANSWER_SECONDS) as answer:
            told: dict[str, Any] = msgspec.json.decode(answer.read())
            return told
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        log.debug("nats: %s: %s", monitor, error)
        return None


async def _let_longest_lead(api: Api, monitors: tuple[str, ...], subjects: Subjects) -> None:
    """Let servers lead whose copies of the streams lack nothing that another one has.

    A server that was killed or stopped may have cut off its copy at a damaged message, and lead all the same.
    """

    async def is_longest(stream: str) -> bool | None:
        state = await api.state(stream)
        return (state["last_seq"], state["messages"]) >= longest[stream] or None

    for _ in range(ATTEMPTS):
        longest = await longest_copies(monitors, subjects.streams)
        if not (shorter := [stream for stream in longest if not await is_longest(stream)]):
            return
        await asyncio.sleep(RETRY_SECONDS)  # recent writes and purges may not be on every server yet
    for stream in shorter:
        api.report_damage(
            f"the leader of {stream} has fewer messages than another server; making that one the leader"
        )
        with suppress(JournalUnavailable):
            await api.from_each_leader(partial(is_longest, stream), stream)


@contextmanager
def as_start_error() -> Iterator[None]:
    """Turn JournalUnavailable into a StartError: at a start, a cluster that does not answer cannot be used."""
    try:
        yield
    except JournalUnavailable as error:
        raise ClusterUnusable(error.detail) from error


async def read_catalogue(streams: Streams, bodies: Bodies, catalogue: Catalogue) -> tuple[int, int]:
    """Fill a catalogue from all creations and deletions of models and all summaries.

    Returns the last sequence numbers of the log and of the state stream, after which to follow them. Other events are
    not read, so that a start does not take longer with many of them.
    """
    api, subjects = streams.api, streams.subjects
    end = await api.last_seq(subjects.log)
    for message in await _lifecycles(api, subjects):
        if message.seq > end:
            break
        opened = await bodies.open(message)
        if opened is not None:
            catalogue.take_lifecycle_event(message.seq, opened.event, opened.blob)
    state_end = await api.last_seq(subjects.state)
    mark = await api.last_from_leader(subjects.state, subjects.mark)
    known = int(mark.data) if mark is not None else 0
    async for message in api.scan(subjects.state, subjects.summaries, after=0):
        summary = decode_summary(message.data)
        known = max(known, summary.link.seq)
        catalogue.take_stored_summary(subjects.life_in(message.subject), message.seq, summary)
    await check_reaches(api, subjects.log, known)
    return end, state_end


async def check_reaches(api: Api, stream: str, seq: int) -> None:
    """Let a server lead a stream that has it up to a message that was there.

    ClusterUnusable if none has: the number of the message would be given again.
    """
    for _ in range(ATTEMPTS):
        if await api.reaches(stream, seq):
            return
        await asyncio.sleep(RETRY_SECONDS)  # who was just elected may not have come so far
    what = f"the stream {stream} ends before message {seq}, which existed"
    api.report_damage(f"{what}; asking every server for its copy")
    if not await api.from_each_leader(partial(api.reaches, stream, seq), stream):
        raise ClusterUnusable(f"{what}: restore a backup")


async def _lifecycles(api: Api, subjects: Subjects) -> list[Message]:
    """All creations and deletions; ClusterUnusable if no server can read one of them."""
    s = subjects
    found = {message.seq: message async for message in api.scan(s.log, s.lifecycles, after=0)}

    async def lacking() -> list[str]:
        """The subjects that have more messages by the leader's list, which knows also those that it cannot read."""
        counts = Counter(message.subject for message in found.values())
        listed = await api.subjects(s.log, s.lifecycles)
        return [subject for subject, count in listed.items() if count > counts[subject]]

    async def read_rest() -> bool | None:
        for subject in await lacking():
            found.update({each.seq: each async for each in api.scan_leader(s.log, subject, after=0)})
        return not await lacking() or None

    if lost := await lacking():
        api.report_damage(f"of {s.log} {lost[0]} was not delivered; asking every server for its copy")
        if not await api.from_each_leader(read_rest, s.log):
            raise ClusterUnusable(f"no server can read all messages {lost[0]} of the stream {s.log}")
    return [found[seq] for seq in sorted(found)]


async def read_uncovered(streams: Streams, bodies: Bodies, catalogue: Catalogue, end: int) -> None:
    """Enter the events up to `end` that no stored summary covers into a catalogue, to find stale summaries.

    It runs in the background after a start, since only a replica that was killed leaves stale summaries.
    """
    api, subjects = streams.api, streams.subjects
    mark = await api.last_from_leader(subjects.state, subjects.mark)
    async for message in api.scan(subjects.log, subjects.events, after=int(mark.data) if mark else 0):
        if message.seq > end:
            break
        opened = await bodies.open(message)
        if opened is not None:
            catalogue.take_event(subjects.life_in(message.subject), message.seq, opened.event)


async def newest_time(streams: Streams) -> int:
    """The time of the newest event, 0 if there is none."""
    api, subjects = streams.api, streams.subjects
    state = await api.state(subjects.log)
    if not state["last_seq"]:
        return 0
    for kind in (subjects.lifecycles, subjects.events):
        found = await api.next_from_leader(subjects.log, kind, state["last_seq"])
        if found is not None:
            body = unwrap(found.data).body
            if isinstance(body, bytes):
                event: AnyEvent = decode_event(body)
                return event.at
    return round(datetime.fromisoformat(state["last_ts"]).timestamp() * 1e6)
