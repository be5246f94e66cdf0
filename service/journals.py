"""Which journal the settings ask for."""

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from service.errors import InvalidSettings
from service.journal.protocol import Journal
from service.journal.sqlite.journal import SqliteJournal
from service.settings import Settings

if TYPE_CHECKING:
    from service.journal.jetstream.link.connecting import Access

EVENTS_KEPT_SECONDS_MIN = 600.0
"""A replica that has lost touch for less than half of this finds all that it missed."""

EXPIRED_REMEMBERED_MAX = 10_000
"""So many predictions of a model that cannot be revealed any more are distinguished from unknown ones."""


def make_journal(settings: Settings) -> Journal:
    """StartError if its directory or its cluster cannot be had."""
    if settings.journal != "sqlite":
        return _on_cluster(settings)
    return SqliteJournal(
        settings.data,
        durability=settings.durability,
        queue_events_max=settings.queue_events_max,
        queue_seconds_max=settings.queue_seconds_max,
        events_kept_max=settings.events_kept_max,
        expired_remembered_max=EXPIRED_REMEMBERED_MAX,
        scrub_rows_per_second=settings.scrub_rows_per_second,
        history_bytes_max=settings.history_bytes_max,
    )


def _on_cluster(settings: Settings) -> Journal:
    access = access_of(settings)
    from service.journal.jetstream.journal import JetStreamJournal
    from service.journal.jetstream.opening import monitors_of
    from service.journal.jetstream.streams import Options

    asked = tuple(filter(None, settings.nats_monitor.split(","))) or monitors_of(access.servers)
    # Within this time a prediction may be revealed, and a reveal sent again.
    kept_seconds = max(2 * settings.pending_ttl_seconds, EVENTS_KEPT_SECONDS_MIN)
    return JetStreamJournal(
        Options(
            access=access,
            prefix=settings.nats_prefix,
            replicas=settings.nats_replicas,
            monitors=() if settings.journal_allow_unsynced else asked,
            seconds=settings.nats_seconds,
            queue_events_max=settings.queue_events_max,
            events_kept_max=settings.events_kept_max,
            events_kept_seconds=kept_seconds,
            history_bytes_max=settings.history_bytes_max,
            ids_kept_seconds=kept_seconds,
        )
    )


def access_of(settings: Settings) -> "Access":
    """Where the servers of the cluster are, and the credentials for them."""
    if not all(map(find_spec, ("nats", "nkeys"))):
        raise InvalidSettings("a journal on NATS needs the extra `nats`: pip install nats-py nkeys")
    from service.journal.jetstream.link.connecting import Access

    servers = tuple(settings.journal.split(","))
    for server in servers:
        _check_address(server)
    return Access(
        servers,
        user=settings.nats_user,
        password=settings.nats_password,
        token=settings.nats_token,
        credentials=settings.nats_credentials,
        ca=settings.nats_ca,
        certificate=settings.nats_certificate,
        key=settings.nats_key,
    )


def _check_address(server: str) -> None:
    """InvalidSettings unless there is a host, and a port that can be one if there is any.

    >>> _check_address("nats://user@127.0.0.1:4222")
    >>> _check_address("nats://127.0.0.1:99999")
    Traceback (most recent call last):
    service.errors.InvalidSettings: NOVIKOFF_JOURNAL: 'nats://127.0.0.1:99999' is not a server address
    """
    try:
        parts = urlsplit(server)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidSettings(f"NOVIKOFF_JOURNAL: {server!r} is not a server address")
