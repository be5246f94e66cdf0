"""The command: check, print the findings, and repair if asked to."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from service.commands.console import CommandFailed, cluster_settings, err, out, report_failures
from service.commands.doctor.checks import (
    COPY,
    Finding,
    Severity,
    by_copying,
    examine_file,
    examine_tables,
    examine_what_was_given_up,
    named,
)
from service.commands.doctor.history import examine_model, examine_unlisted
from service.commands.doctor.repairing import remove, salvage, swap
from service.errors import StartError
from service.journal.sqlite.directory import DirectoryLock, check_not_lost, check_writable, end_replacing
from service.journal.sqlite.schema import legible_errors, open_reader, open_writer
from service.settings import Settings

REPAIRS_MAX = 5
"""A repair may leave something to repair: a rebuilt line of a model needs its counts."""

STYLE = {Severity.problem: "bold red", Severity.note: "yellow"}


def doctor(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data directory of a service that is not running.")
    ] = Settings.model_fields["data"].default,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair a copy of the file and put it in its place.")
    ] = False,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="With --repair: continue even if almost nothing is readable. The old file is kept.",
        ),
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal", metavar="nats://HOST:PORT,…", help="Check the streams of a cluster instead."
        ),
    ] = None,
) -> None:
    """Check a data directory or a cluster: replay every model and compare.

    Nothing is changed without --repair.
    The exit status is 1 if there is a problem, or if something had to be given up.
    """
    if journal is not None:
        with report_failures():
            _conclude(_examine_cluster(journal, repair=repair), [])
        return
    lost: list[str] = []
    with report_failures(), _locked(data):
        path = data.absolute() / "journal.sqlite"
        if repair:
            end_replacing(path)
        findings = examine(path)
        _print_findings(findings)
        if repair and any(finding.repair for finding in findings):
            findings = _repair(path, lost, give_up=give_up)
    _conclude(findings, lost)


def _examine_cluster(journal: str, *, repair: bool) -> list[Finding]:
    if repair:
        raise CommandFailed("--repair is for a data directory: the servers of a cluster repair their copies")
    settings = cluster_settings(journal, "--journal")
    from service.commands.doctor.streams import examine_streams

    findings = asyncio.run(examine_streams(settings))
    _print_findings(findings)
    return findings


def _conclude(findings: list[Finding], lost: list[str]) -> None:
    problems = sum(finding.severity is Severity.problem for finding in findings)
    if problems:
        out.print(f"{problems} {'problem' if problems == 1 else 'problems'}")
    if problems or lost:
        raise typer.Exit(1)
    out.print("no problems found")


def _repair(path: Path, lost: list[str], *, give_up: bool) -> list[Finding]:
    """Repair a copy and put it in the place of the journal; what is left to find."""
    new = path.with_name(f"{path.name}.new")
    remove(new)
    salvaged = salvage(path, new)
    if salvaged.refusal is not None and not give_up:
        remove(new)
        raise CommandFailed(
            f"nothing was changed: {salvaged.refusal}. Restore a backup;"
            " --repair --give-up keeps only what is readable"
        )
    lost += salvaged.lost
    findings = examine(new)
    for _ in range(REPAIRS_MAX):
        if any(finding.repair for finding in findings):
            lost += _apply(new, findings)
            findings = examine(new)
    lost += _models_gone(new, salvaged.models)
    for one in lost:
        out.print(f"discarded: {one}", soft_wrap=True)
    out.print("repaired a copy; looking again")
    _print_findings(findings)
    aside = swap(new, path, lost)
    out.print(f"the copy is in place; the old file is now {aside.name}")
    return findings


def _models_gone(new: Path, missing: set[int]) -> list[str]:
    """Of the models whose lines could not be read, those that could not be rebuilt either."""
    with closing(open_reader(new)) as connection:
        gone = missing - {number for (number,) in connection.execute("SELECT id FROM model")}
    return [f"models that cannot be read: {named(gone)}"] if gone else []


def _apply(path: Path, findings: list[Finding]) -> list[str]:
    """Make the repairs; in words, what they have given up."""
    with closing(open_writer(path, "power")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for finding in findings:
            if finding.repair is not None:
                finding.repair(connection)
        connection.execute("COMMIT")
    return [finding.loses for finding in findings if finding.repair and finding.loses]


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Lock the directory, so that no service runs on it meanwhile."""
    path = data.absolute() / "journal.sqlite"
    lock = DirectoryLock(data)
    try:
        check_writable(path)
        check_not_lost(path)
        if not path.is_file():
            raise CommandFailed(f"there is no journal in {data}")
        lock.acquire()
    except StartError as error:
        raise CommandFailed(error.detail) from None
    try:
        yield
    finally:
        lock.release()


def examine(path: Path, shown: Path | None = None) -> list[Finding]:
    """All findings of a journal, `shown` under another name."""
    try:
        with legible_errors():
            return _look(path, shown or path)
    except sqlite3.Error as error:
        return [Finding("file", f"it cannot be read: {error}", COPY, by_copying)]


def _look(path: Path, shown: Path) -> list[Finding]:
    with closing(open_reader(path)) as connection, err.status("looking at the file"):
        findings = examine_file(connection, path)
        if findings:
            return findings
        _print_counts(connection, shown)
        unlisted, lost = examine_unlisted(connection)
        findings = [*examine_what_was_given_up(path), *unlisted]
        findings += examine_tables(connection, lost)
    with closing(open_reader(path)) as connection, err.status("replaying") as status:
        models = connection.execute("SELECT id, name FROM model ORDER BY name").fetchall()
        for number, name in models:
            status.update(f"replaying {name}")
            findings += examine_model(connection, number, name)
    return findings


def _print_counts(connection: sqlite3.Connection, path: Path) -> None:
    tables = {
        "model": "models",
        "event": "events",
        "snapshot": "snapshots",
        "pending": "pending predictions",
    }
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
    parts = (f"{count:,} {name}" for count, name in zip(counts, tables.values(), strict=True))
    out.print(f"{path}: {', '.join(parts)}", soft_wrap=True)


def _print_findings(findings: list[Finding]) -> None:
    for finding in findings:
        line = Text(f"{finding.severity:8}", STYLE[finding.severity])
        line.append(f"{finding.where}: {finding.message}", "not bold default")
        out.print(line, soft_wrap=True)
        if finding.remedy:
            out.print(f"{'':8}{finding.remedy}", soft_wrap=True)
