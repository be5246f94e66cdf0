"""What each server says of itself: whether it syncs every write to disk, and how far its copies of streams go.

A cluster whose servers do not can lose acknowledged events in a power cut. NATS does not tell clients, but the
monitoring address of each server (`http_port`) has it.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import msgspec

from service.errors import ClusterUnusable

log = logging.getLogger(__name__)

MONITOR_PORT = 8222
ANSWER_SECONDS = 3.0

REMEDY = (
    "start every server with `sync_interval: always` in its `jetstream` section and with `http_port`, name the"
    " monitoring addresses in NOVIKOFF_NATS_MONITOR, or set NOVIKOFF_JOURNAL_ALLOW_UNSYNCED=true to risk it"
)

_open = build_opener(ProxyHandler({})).open  # without the proxies of the environment: the servers are near


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
            f"no NATS server tells at {', '.join(monitors)} whether it syncs every write: {REMEDY}"
        )
    if silent:
        log.warning("nobody answers at %s, whether every write is synced there", ", ".join(silent))


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
