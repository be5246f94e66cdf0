"""Checks that the servers sync every write to disk before they acknowledge it.

A cluster whose servers do not can lose acknowledged events in a power cut. NATS does not tell clients, but the
monitoring address of each server (`http_port`) has it.
"""

import asyncio
import logging
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
    try:
        with _open(f"{monitor.rstrip('/')}/varz", timeout=ANSWER_SECONDS) as answer:
            info = msgspec.json.decode(answer.read())
        return bool(info.get("jetstream", {}).get("config", {}).get("sync_always", False))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        log.debug("nats: %s: %s", monitor, error)
        return None
