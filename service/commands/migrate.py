"""`novikoff migrate`: moves all models from a data directory to a NATS cluster.

Each model is read from the directory, written to the cluster, read back by a second replica and compared to the bit.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from service.commands.console import CommandFailed, cluster_settings, err, out, report_failures
from service.engine.fleet.live import Live
from service.engine.fleet.loading import DAMAGE, restored_at_once
from service.engine.models.outcomes import OutcomeLog
from service.errors import NovikoffError, StartError
from service.events import (
    ModelCreated,
    ModelDeleted,
    ModelImported,
    Prediction,
    RoundRevealed,
    prediction_in,
)
from service.journal.protocol import Recorded, Snapshot
from service.journal.sqlite import reading
from service.journal.sqlite.directory import DirectoryLock, open_directory
from service.journal.sqlite.schema import open_reader
from service.journal.sqlite.sealing import unseal_outcomes
from service.journals import make_journal
from service.settings import Settings

if TYPE_CHECKING:  # needs an extra
    from service.journal.jetstream.journal import JetStreamJournal

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class MovedModel:
    """A model with all that is moved."""

    live: Live
    creation: ModelCreated | ModelImported
    """The event that created it; if that was trimmed, a new one with the same settings."""
    events: list[Recorded]
    """All retained events after it."""
    is_whole: bool
    """Whether no event was trimmed."""
    outcomes: OutcomeLog
    pending: list[Prediction]


def migrate(
    source: Annotated[
        str, typer.Option("--from", metavar="sqlite:DIR", help="The data directory of a stopped service.")
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="nats://HOST:PORT,…",
            help="The cluster. It must have no models with the same NOVIKOFF_NATS_PREFIX.",
        ),
    ],
) -> None:
    """Move all models from a data directory to a NATS cluster.

    Models, retained events, first answers and pending predictions are read back by a second replica and
    compared to the bit. The data directory is not changed, except that one of an older version is brought up
    to date first. Use the same settings as the replicas will have, such as
    NOVIKOFF_NATS_PREFIX and NOVIKOFF_PENDING_TTL_SECONDS.
    """
    with report_failures():
        kind, _, directory = source.partition(":")
        if kind != "sqlite" or not directory:
            raise CommandFailed("--from must be sqlite: with a data directory")
        settings = cluster_settings(target, "--to")
        with opened(Path(directory)) as connection:
            for name in models_in(connection):
                check_forgotten(connection, name)
            try:
                asyncio.run(_move(connection, settings))
            except CommandFailed:
                raise
            except StartError:
                raise
            except NovikoffError as error:
                raise CommandFailed(
                    f"{error.detail}; the models moved so far are incomplete: delete them"
                ) from error


async def _move(connection: sqlite3.Connection, settings: Settings) -> None:
    from service.journal.jetstream.journal import JetStreamJournal

    writer = make_journal(settings)
    assert isinstance(writer, JetStreamJournal)
    names = models_in(connection)
    seqs: dict[str, list[int]] = {}
    await writer.open(lambda seq, event: None)
    try:
        if (await writer.totals("")).models:
            raise CommandFailed("the cluster already has models: choose another NOVIKOFF_NATS_PREFIX")
        with err.status("moving") as status:
            for name in names:
                status.update(f"moving {name}")
                seqs[name] = await write(writer, read(connection, name))
    finally:
        await writer.close()
    reader = make_journal(settings)
    assert isinstance(reader, JetStreamJournal)
    await reader.open(lambda seq, event: None)
    try:
        with err.status("comparing") as status:
            for name in names:
                status.update(f"comparing {name}")
                await compare(reader, read(connection, name), seqs[name])
    finally:
        await reader.close()
    out.print(
        f"{len(names):,} models and {sum(map(len, seqs.values())):,} events moved, verified bit for bit"
    )


# Reading


@contextmanager
def opened(directory: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the journal of a stopped service; the directory is locked meanwhile."""
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
        raise CommandFailed(f"{path} cannot be read: {error}; run novikoff doctor") from error
    finally:
        lock.release()


def models_in(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM model ORDER BY id")]


def read(connection: sqlite3.Connection, name: str) -> MovedModel:
    try:
        return _read(connection, name)
    except DAMAGE as error:
        raise CommandFailed(f"the history of {name!r} is damaged: {error}; run novikoff doctor") from error


def check_forgotten(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a model with a forgetting in progress: it names events by numbers that the cluster changes."""
    try:
        stored = reading.load(connection, name)
        assert stored is not None
        amended = restored_at_once(stored).model.amended
    except DAMAGE:
        return  # `read` reports it
    if amended is not None and amended.erasing is not None:
        raise CommandFailed(
            f"rounds of {name!r} are still being forgotten: start the service on this directory"
            " and wait until /stats no longer shows `rebuilding`"
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


# Writing and comparing


async def write(journal: "JetStreamJournal", moved: MovedModel) -> list[int]:
    """Write a model and its events in their order; returns the new sequence numbers of the events."""
    name = moved.live.model.name
    created = await journal.append(moved.creation)
    if not created.is_new:
        raise CommandFailed(f"model {name!r} already exists in the cluster")
    seqs: list[int] = []
    for start in range(0, len(moved.events), AT_ONCE):
        some = [recorded.event for recorded in moved.events[start : start + AT_ONCE]]
        served = [prediction_in(event) for event in some if isinstance(event, RoundRevealed)]
        await _keep(journal, created.seq, served)
        appended = await asyncio.gather(*(journal.append(event, created.seq) for event in some))
        if not all(one.is_new for one in appended):
            raise CommandFailed(f"an event of {name!r} already exists in the cluster")
        seqs += [one.seq for one in appended]
    await _keep(journal, created.seq, moved.pending)
    await _save(journal, created.seq, moved, seqs[-1] if seqs else created.seq, _renumbered(moved, seqs))
    journal.save_summaries([replace(moved.live.summary(), life=created.seq)])
    return seqs


async def _keep(journal: "JetStreamJournal", life: int, predictions: list[Prediction]) -> None:
    for start in range(0, len(predictions), AT_ONCE):
        some = predictions[start : start + AT_ONCE]
        kept = (journal.put_pending(prediction, life, wait=True) for prediction in some)
        for one in await asyncio.gather(*(future for future in kept if future is not None)):
            if not one.is_new:
                raise CommandFailed("an id already exists in the cluster")


async def _save(
    journal: "JetStreamJournal", life: int, moved: MovedModel, seq: int, outcomes: OutcomeLog
) -> None:
    model = moved.live.model
    snapshot = Snapshot(model.name, life, seq, model.version, model.to_bytes(), outcomes.tobytes())
    journal.save_snapshot(snapshot, is_whole=moved.is_whole)
    await journal.settle()


def _renumbered(moved: MovedModel, seqs: list[int]) -> OutcomeLog:
    """The outcomes of the moved events, with their new sequence numbers."""
    return moved.outcomes.renumbered(
        {recorded.seq: seq for recorded, seq in zip(moved.events, seqs, strict=True)}
    )


async def compare(journal: "JetStreamJournal", moved: MovedModel, seqs: list[int]) -> None:
    """Fail unless the cluster has the same model, to the bit."""
    name = moved.live.model.name
    stored = await journal.load(name)
    if stored is None or restored_at_once(stored).model.to_bytes() != moved.live.model.to_bytes():
        raise CommandFailed(f"{name!r} is not the same in the cluster")
    waiting = [(each.prediction_id, each.at) for each in moved.pending]
    resting = [(each.prediction_id, each.at) for each in stored.resting]
    if waiting[: len(resting)] != resting or stored.pending != moved.pending[len(resting) :]:
        raise CommandFailed(f"the pending predictions of {name!r} are not the same in the cluster")
    events = await journal.events(name, after=0, limit=-1)
    expected = [Recorded(seq, recorded.event) for seq, recorded in zip(seqs, moved.events, strict=True)]
    if moved.is_whole:
        expected.insert(0, Recorded(events[0].seq if events else 0, moved.creation))
    if events != expected or any(isinstance(one.event, ModelDeleted) for one in events):
        raise CommandFailed(f"the events of {name!r} are not the same in the cluster")
    if seqs:
        page = await journal.outcomes(name, seqs[0])
        if OutcomeLog(page or b"").tobytes() != _renumbered(moved, seqs).tobytes():
            raise CommandFailed(f"the outcomes of the rounds of {name!r} are not the same in the cluster")
