"""Reads the models of a data directory, each with all that is to be moved."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from service.commands.console import CommandFailed
from service.engine.fleet.live import Live
from service.engine.fleet.restoring import DAMAGE, restored_at_once
from service.engine.models.outcomes import OutcomeLog
from service.errors import StartError
from service.events import ModelCreated, ModelImported, Prediction
from service.journal.protocol import Recorded
from service.journal.sqlite import reading
from service.journal.sqlite.directory import DirectoryLock, open_directory
from service.journal.sqlite.schema import open_reader
from service.journal.sqlite.sealing import unseal_outcomes


@dataclass(frozen=True, slots=True)
class MovedModel:
    """A model to be moved."""

    live: Live
    """Its state."""
    creation: ModelCreated | ModelImported
    """The event that made it; if that was trimmed, one with the same settings."""
    events: list[Recorded]
    """All events after it that are still kept."""
    is_whole: bool
    """Whether no event was trimmed."""
    outcomes: OutcomeLog
    """Of all rounds with an id."""
    pending: list[Prediction]
    """Predictions that wait for their labels."""


@contextmanager
def opened(directory: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the journal of a service that is not running; locked, so that it cannot be started meanwhile."""
    if not (directory / "journal.sqlite").is_file():
        raise CommandFailed(f"there is no journal in {directory}")
    lock = DirectoryLock(directory)
    path = directory.absolute() / "journal.sqlite"
    try:
        lock.acquire()
        open_directory(path, "power")
    except StartError as error:
        raise CommandFailed(error.detail) from None
    try:
        with closing(open_reader(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise CommandFailed(f"{path} cannot be read: {error}; novikoff doctor tells more") from error
    finally:
        lock.release()


def models_in(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM model ORDER BY id")]


def read(connection: sqlite3.Connection, name: str) -> MovedModel:
    try:
        return _read(connection, name)
    except DAMAGE as error:
        raise CommandFailed(
            f"the history of {name!r} is damaged: {error}; novikoff doctor tells more"
        ) from error


def check_forgotten(connection: sqlite3.Connection, name: str) -> None:
    """CommandFailed if a model is yet to forget something: its events have other numbers in the cluster."""
    try:
        stored = reading.load(connection, name)
        assert stored is not None
        amended = restored_at_once(stored).model.amended
    except DAMAGE:
        return  # `read` says it
    if amended is not None and amended.erasing is not None:
        raise CommandFailed(
            f"{name!r} is yet to forget what it was asked to: start the service on it again"
            " and wait until /stats no longer says rebuilding"
        )


def _read(connection: sqlite3.Connection, name: str) -> MovedModel:
    stored = reading.load(connection, name, all_pending=True)
    assert stored is not None
    live = restored_at_once(stored)
    events = reading.events(connection, name, 0, -1)
    is_whole = bool(events) and isinstance(events[0].event, ModelCreated | ModelImported)
    if is_whole:
        creation = events.pop(0).event
        assert isinstance(creation, ModelCreated | ModelImported)
    else:
        (settings,) = connection.execute("SELECT settings FROM model WHERE name = ?", (name,)).fetchone()
        kept = msgspec.msgpack.decode(settings)
        creation = ModelCreated(name, live.model.created_at, kept, live.model.ask_key)
    return MovedModel(live, creation, events, is_whole, _outcomes(connection, name, live), stored.pending)


def _outcomes(connection: sqlite3.Connection, name: str, live: Live) -> OutcomeLog:
    """The outcomes of all pages, then those of the events after the newest snapshot."""
    pages = connection.execute(
        "SELECT body, model, through, version FROM outcome"
        " WHERE model = (SELECT id FROM model WHERE name = ?) ORDER BY through",
        (name,),
    )
    return OutcomeLog(b"".join([*(unseal_outcomes(*page) for page in pages), live.outcomes.tobytes()]))
