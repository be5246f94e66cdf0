"""Every journal there is, made small, for the tests that run over all of them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.connecting import Access
from service.journal.jetstream.streams import Options
from service.journal.protocol import Journal
from service.journal.sqlite.journal import SqliteJournal
from tests.support.nats_servers import NatsServer

LIFE = 1
"""That of the first model of a journal: its first event makes it."""


def sqlite_at(
    directory: Path,
    *,
    durability: str = "process",
    events_kept_max: int = 5,
    history_bytes_max: int = 0,
) -> SqliteJournal:
    return SqliteJournal(
        directory,
        durability=durability,
        queue_events_max=1000,
        queue_seconds_max=60,
        events_kept_max=events_kept_max,
        expired_remembered_max=2,
        history_bytes_max=history_bytes_max,
    )


def _sqlite(request: pytest.FixtureRequest, directory: Path) -> Callable[[], Journal]:
    return lambda: sqlite_at(directory, durability="power")


def jetstream_options(server: NatsServer, prefix: str) -> Options:
    return Options(
        access=Access((server.url,)),
        prefix=prefix,
        replicas=1,
        monitors=(server.monitor,),
        seconds=60.0,
        queue_events_max=1000,
        events_kept_max=5,
        events_kept_seconds=0.0,
        ids_kept_seconds=3600.0,
    )


def _jetstream(request: pytest.FixtureRequest, directory: Path) -> Callable[[], Journal]:
    server: NatsServer = request.getfixturevalue("nats_server")
    options = jetstream_options(server, f"t{os.urandom(6).hex()}")
    return lambda: JetStreamJournal(options)


JOURNALS: dict[str, Callable[[pytest.FixtureRequest, Path], Callable[[], Journal]]] = {
    "sqlite": _sqlite,
    "jetstream": _jetstream,
}
