"""The command: look, tell, and mend if asked to."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from service.commands.console import CommandFailed, err, failures_told, out
from service.commands.doctor.file import COPY, examine_file
from service.commands.doctor.findings import Finding, Weight
from service.commands.doctor.history import examine_model
from service.commands.doctor.rebuilding import rebuild
from service.commands.doctor.tables import examine_tables
from service.errors import StartError
from service.journal.sqlite.identity import check_not_lost
from service.journal.sqlite.lock import DirectoryLock
from service.journal.sqlite.schema import open_reader, open_writer
from service.settings import Settings

STYLE = {Weight.problem: "bold red", Weight.note: "yellow"}


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
    with failures_told(), _locked(data):
        path = data.absolute() / "journal.sqlite"
        findings = _examine(path)
        _tell(findings)
        if repair and any(finding.remedy == COPY for finding in findings):
            rebuild(path)
            out.print(f"copied; the old file is now {path.name}.damaged; looking again")
            findings = _examine(path)
            _tell(findings)
        if repair and any(finding.repair for finding in findings):
            _mend(path, findings)
            out.print("repaired; looking again")
            findings = _examine(path)
            _tell(findings)
    problems = sum(finding.weight is Weight.problem for finding in findings)
    if problems:
        out.print(f"{problems} {'problem' if problems == 1 else 'problems'}")
        raise typer.Exit(1)
    out.print("all is well")


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """The directory for ourselves, so that no service changes it meanwhile."""
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
        _introduce(connection, path)
        findings = list(examine_tables(connection))
    with closing(open_reader(path)) as connection, err.status("replaying") as status:
        models = connection.execute("SELECT id, name FROM model ORDER BY name").fetchall()
        for number, name in models:
            status.update(f"replaying {name}")
            findings += examine_model(connection, number, name)
    return findings


def _introduce(connection: sqlite3.Connection, path: Path) -> None:
    tables = {
        "model": "models",
        "event": "events",
        "snapshot": "snapshots",
        "pending": "predictions that wait",
    }
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
    parts = (f"{count:,} {name}" for count, name in zip(counts, tables.values(), strict=True))
    out.print(f"{path}: {', '.join(parts)}", soft_wrap=True)


def _tell(findings: list[Finding]) -> None:
    for finding in findings:
        line = Text(f"{finding.weight:8}", STYLE[finding.weight])
        line.append(f"{finding.where}: {finding.words}", "not bold default")
        out.print(line, soft_wrap=True)
        if finding.remedy:
            out.print(f"{'':8}{finding.remedy}", soft_wrap=True)


def _mend(path: Path, findings: list[Finding]) -> None:
    with closing(open_writer(path, "power")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for finding in findings:
            if finding.repair is not None:
                finding.repair(connection)
        connection.execute("COMMIT")
