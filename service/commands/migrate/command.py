"""The command: move, compare, report."""

import asyncio
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from service.commands.console import CommandFailed, err, out, report_failures
from service.commands.migrate.source import check_forgotten, models_in, opened, read
from service.errors import NovikoffError, StartError
from service.journals import make_journal
from service.settings import Settings, load_settings


def migrate(
    source: Annotated[
        str, typer.Option("--from", metavar="sqlite:DIR", help="The data directory of a stopped service.")
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to", metavar="nats://HOST:PORT,…", help="The cluster, without models of this prefix."
        ),
    ],
) -> None:
    """Move a fleet from a data directory to a NATS cluster.

    Models, retained events, first answers and waiting predictions are read back by a second replica and
    compared to the bit. The directory is only read. Settings such as NOVIKOFF_NATS_PREFIX and
    NOVIKOFF_PENDING_TTL_SECONDS are those that the replicas will have.
    """
    with report_failures():
        kind, _, directory = source.partition(":")
        if kind != "sqlite" or not directory:
            raise CommandFailed("--from must be sqlite: and a data directory")
        if not target.startswith(("nats://", "tls://")):
            raise CommandFailed("--to must be nats:// or tls:// and the cluster's servers")
        if find_spec("nats") is None:
            raise CommandFailed("a journal on NATS needs the extra `nats`: pip install nats-py nkeys")
        settings = load_settings(journal=target)
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
                raise CommandFailed(f"{error.detail}; what was moved so far is of no use") from error


async def _move(connection: sqlite3.Connection, settings: Settings) -> None:
    from service.commands.migrate.moving import compare, write
    from service.journal.jetstream.journal import JetStreamJournal

    writer = make_journal(settings)
    assert isinstance(writer, JetStreamJournal)
    names = models_in(connection)
    seqs: dict[str, list[int]] = {}
    await writer.open(lambda seq, event: None)
    try:
        if (await writer.totals("")).models:
            raise CommandFailed("there are models in the cluster already; take another NOVIKOFF_NATS_PREFIX")
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
    out.print(f"{len(names):,} models and {sum(map(len, seqs.values())):,} events moved, the same to the bit")
