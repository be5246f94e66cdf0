"""The command: check, print the findings, and repair if asked to."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from service.commands.console import CommandFailed, err, out, report_failures
from service.commands.doctor.file import COPY, examine_file
from service.commands.doctor.findings import Finding, Severity
from service.commands.doctor.history import examine_model
from service.commands.doctor.rebuilding import rebuild
from service.commands.doctor.tables import examine_tables
from service.errors import StartError
from service.journal.sqlite.identity import check_not_lost
from service.journal.sqlite.lock import DirectoryLock
from service.journal.sqlite.schema import open_reader, open_writer
from service.settings import Settings

STYLE = {Severity.problem: "bold red", Severity.note: "yellow"}


def doctor(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data directory of a service that is not running.")
    ] = Settings.model_fields["data"].default,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be made anew from the events.")
    ] = False,
) -> None:
    """Check a data directory: replay every model and compare, to the bit.

    Nothing is changed without --repair, and events never are.
    The exit status is 1 if there is a problem.
    """
    with report_failures(), _locked(data):
        path = data.absolute() / "journal.sqlite"
        findings = _examine(path)
        _print_findings(findings)
        if repair and any(finding.remedy == COPY for finding in findings):
            rebuild(path)
            out.print(f"copied; the old file is now {path.name}.damaged; looking again")
            findings = _examine(path)
            _print_findings(findings)
        if repair and any(finding.repair for finding in findings):
            _repair(path, findings)
            out.print("repaired; looking again")
            findings = _examine(path)
            _print_findings(findings)
    problems = sum(finding.severity is Severity.problem for finding in findings)
    if problems:
        out.print(f"{problems} {'problem' if problems == 1 else 'problems'}")
        raise typer.Exit(1)
    out.print("all is well")


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Lock the directory, so that no service runs on it meanwhile."""
    path = data.absolute() / "journal.sqlite"
    lock = DirectoryLock(data)
    try:
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


def _examine(path: Path) -> list[Finding]:
    with closing(open_reader(path)) as connection, err.status("looking at the file"):
        findings = examine_file(connection, path)
        if findings:
            return findings
        _print_counts(connection, path)
        findings = list(examine_tables(connection))
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
        "pending": "predictions that wait",
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


def _repair(path: Path, findings: list[Finding]) -> None:
    with closing(open_writer(path, "power")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for finding in findings:
            if finding.repair is not None:
                finding.repair(connection)
        connection.execute("COMMIT")
