"""`novikoff backup` and `novikoff restore`: the journal as one file, and a new data directory or cluster from it."""

import asyncio
import os
import re
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import sleep
from typing import Annotated

import typer

from service.commands.console import CommandFailed, cluster_settings, counted, err, out, report_failures
from service.commands.doctor.checks import Severity, examine_version
from service.commands.doctor.command import examine
from service.commands.doctor.history import examine_model
from service.commands.doctor.repairing import remove
from service.errors import StartError
from service.journal.sqlite.directory import (
    DirectoryLock,
    check_not_lost,
    has_been_used,
    sync_directory,
    take_over,
)
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.soundness import why_misshapen, why_numbering_damaged
from service.journals import access_of
from service.settings import Settings

SAMPLE_MODELS = 20
"""So many models of a new backup are replayed. `restore` replays all."""

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Data = Annotated[
    Path,
    typer.Option(metavar="DIR", envvar="NOVIKOFF_DATA", help="The data directory of the service."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="nats://HOST:PORT,…",
        help="Use a cluster instead of a data directory. Credentials and prefix are settings, such as"
        " NOVIKOFF_NATS_USER.",
    ),
]
DATA = Settings.model_fields["data"].default


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the backup.")],
    data: Data = DATA,
    journal: Cluster = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Repeat the backup at this interval: 30m, 6h, 1d. The time is added to the name of FILE.",
        ),
    ] = None,
    keep: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --every: delete all but the newest N backups.")
    ] = 7,
) -> None:
    """Back up a service while it runs.

    The backup is one moment of the journal. Of a data directory, the file is checked and some models are
    replayed and compared with their snapshots.
    """
    with report_failures():
        file = file.absolute()
        if not file.parent.is_dir():
            raise CommandFailed(f"there is no folder {file.parent}: create it first")
        if every is None:
            _back_up(file, data, journal)
        else:
            _repeat(file, data, journal, _seconds(every), keep)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `novikoff backup`.")],
    data: Data = DATA,
    journal: Cluster = None,
) -> None:
    """Restore a backup to a new data directory or an empty cluster.

    A data directory that has been used is refused. Every model is replayed and compared first. What was
    answered after the backup is not in it.
    """
    with report_failures():
        if journal is None:
            _restore_directory(file, data.absolute())
        else:
            from service.journal.jetstream.copies import restore_streams

            settings = cluster_settings(journal, "--journal")
            events = asyncio.run(restore_streams(access_of(settings), settings.nats_prefix, file))
            out.print(f"restored {counted(events, 'event')}; start the replicas", soft_wrap=True)


def _back_up(file: Path, data: Path, journal: str | None) -> None:
    if file.exists():
        raise CommandFailed(f"{file} already exists: choose another name")
    partial = file.with_name(f"{file.name}.partial")
    remove(partial)
    try:
        done = _copy_directory(data, partial) if journal is None else _copy_cluster(journal, partial)
        with partial.open("rb+") as opened:
            os.fsync(opened.fileno())
        partial.rename(file)
        sync_directory(file.parent)
    finally:
        remove(partial)
    out.print(f"{file}: {done}, {file.stat().st_size:,} bytes", soft_wrap=True)


def _copy_directory(data: Path, partial: Path) -> str:
    """Copy the journal of a directory and check the copy; in words, what is in it."""
    path = data.absolute() / "journal.sqlite"
    try:
        check_not_lost(path)
    except StartError as error:
        raise CommandFailed(error.detail) from None
    if not path.is_file():
        raise CommandFailed(f"there is no journal in {data}")
    try:
        with closing(open_reader(path)) as source:
            other = examine_version(source)
        if other is not None:
            raise CommandFailed(
                f"{path} cannot be backed up: {other.message}. {other.remedy}"
                " Or stop the service and copy the whole directory."
            )
        with err.status("copying"):
            _copy(path, partial)
        with closing(open_reader(partial)) as copy, err.status("checking the copy"):
            return _checked(copy)
    except sqlite3.Error as error:
        raise CommandFailed(f"{path} cannot be copied: {error}; run `novikoff doctor` for details") from None


def _copy(path: Path, new: Path) -> None:
    new.touch(0o600)
    with closing(open_reader(path)) as source, closing(sqlite3.connect(new, isolation_level=None)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # so that it is one file


def _checked(copy: sqlite3.Connection) -> str:
    complaints = [why for (why,) in copy.execute("PRAGMA integrity_check(1)") if why != "ok"]
    why = why_misshapen(copy) or why_numbering_damaged(copy) or next(iter(complaints), None)
    if why is not None:
        raise CommandFailed(f"the journal is damaged: {why}; run `novikoff doctor` for details")
    models = copy.execute("SELECT id, name FROM model").fetchall()
    sample = Random().sample(models, min(SAMPLE_MODELS, len(models)))
    for number, name in sample:
        for finding in examine_model(copy, number, name):
            if finding.severity is Severity.problem:
                raise CommandFailed(
                    f"the journal is damaged: {name}: {finding.message}; run `novikoff doctor` for details"
                )
    (events,) = copy.execute("SELECT count(*) FROM event").fetchone()
    return f"{counted(len(models), 'model')} ({len(sample)} replayed), {counted(events, 'event')}"


def _copy_cluster(journal: str, partial: Path) -> str:
    from service.journal.jetstream.copies import copy_streams

    settings = cluster_settings(journal, "--journal")
    with err.status("copying"):
        events = asyncio.run(copy_streams(access_of(settings), settings.nats_prefix, partial))
    return counted(events, "event")


def _repeat(file: Path, data: Path, journal: str | None, seconds: float, keep: int) -> None:
    """Until it is stopped. A backup that fails is reported, and the next one is made in its time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as PID 1 of a container it would be ignored
    while True:
        at = datetime.now(UTC)
        try:
            _back_up(file.with_name(f"{file.stem}-{at:%Y%m%dT%H%M%SZ}{file.suffix}"), data, journal)
            made = sorted(one for one in file.parent.glob(f"{file.stem}-*{file.suffix}") if _is_of(one, file))
            for old in made[:-keep]:
                old.unlink()
        except (CommandFailed, OSError) as error:
            err.print(f"novikoff: {error}", soft_wrap=True)
        sleep(max(0.0, seconds - (datetime.now(UTC) - at).total_seconds()))


def _is_of(one: Path, file: Path) -> bool:
    return (
        re.fullmatch(rf"{re.escape(file.stem)}-\d{{8}}T\d{{6}}Z{re.escape(file.suffix)}", one.name)
        is not None
    )


def _seconds(text: str) -> float:
    """
    >>> _seconds("6h"), _seconds("90s")
    (21600, 90)
    """
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None or not int(found[1]):
        raise CommandFailed(f"--every must be a number and a unit (s, m, h or d), such as 6h, not {text!r}")
    return int(found[1]) * SECONDS[found[2]]


def _restore_directory(file: Path, data: Path) -> None:
    path = data / "journal.sqlite"
    if not file.is_file():
        raise CommandFailed(f"there is no file {file}")
    if has_been_used(path):
        raise CommandFailed(f"{data} is already in use: choose a new directory with --data")
    lock = DirectoryLock(data)
    new = path.with_name(f"{path.name}.restoring")
    try:
        lock.acquire()
        remove(new)
        with err.status("copying"):
            _copy(file.absolute(), new)
        open_writer(new, "power").close()  # brings the file of an older version up to date
    except (sqlite3.Error, StartError) as error:
        remove(new)
        raise CommandFailed(f"{file} is not a backup that can be restored: {error}") from None
    try:
        problems = [one for one in examine(new, path) if one.severity is Severity.problem]
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            raise CommandFailed(
                f"nothing was restored, since {file} is damaged: {problems[0].where}: {problems[0].message}{more}"
            )
        take_over(new, path)
    finally:
        remove(new)
        lock.release()
    out.print(f"restored to {data}", soft_wrap=True)
