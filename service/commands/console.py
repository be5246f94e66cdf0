"""Output of the commands, common options, and how errors are reported."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from novikoff import DEFAULT_URL
from service.errors import NovikoffError, StartError
from service.runtime import environment

if TYPE_CHECKING:
    from service.settings import Settings

# Names and labels are text, never markup.
out = Console(markup=False, highlight=False)
err = Console(markup=False, highlight=False, stderr=True)

Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"The service. Default: {environment.URL} in the environment, else {DEFAULT_URL}.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="The API key, if the service needs one. All users of this machine can see it here, with ps:"
        f" {environment.KEY} in the environment or a file is safer.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"A file that contains only the API key. Default: {environment.KEY_FILE} in the environment.",
    ),
]


class CommandFailed(NovikoffError):
    """An error that the user can fix."""

    code = "command-failed"


def service_url(url: str | None) -> str:
    """The address of the service: from the option, else the environment, else the default."""
    return url or os.environ.get(environment.URL) or DEFAULT_URL


def service_key(key: str | None, file: Path | None) -> str | None:
    """The API key: options come before the environment."""
    if key is not None:
        return key
    if file is None:
        if given := os.environ.get(environment.KEY):
            return given
        if not (named := os.environ.get(environment.KEY_FILE)):
            return None
        file = Path(named)
    try:
        found = file.read_text().strip()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is not a text file with a key") from None
    if not found:
        raise CommandFailed(f"{file} is empty: it must contain a key")
    return found


def cluster_settings(journal: str, option: str) -> "Settings":
    """The settings of a service on a cluster whose servers an option names."""
    from service.settings import load_settings  # which takes long, and not every command needs it

    if not journal.startswith(("nats://", "tls://")):
        raise CommandFailed(f"{option} must be nats:// or tls:// with the cluster's servers")
    if find_spec("nats") is None:
        raise CommandFailed("a journal on NATS needs the extra `nats`: pip install nats-py nkeys")
    return load_settings(journal=journal)


def percent(ratio: float | None, digits: int = 2) -> str:
    """A rate as all commands and the page write it.

    >>> percent(0.0507), percent(0.5, 1), percent(None)
    ('5.07%', '50.0%', '-')
    """
    return "-" if ratio is None else f"{100 * ratio:.{digits}f}%"


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "row"), counted(1_250, "row")
    ('1 row', '1,250 rows')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


class Advance(Protocol):
    def __call__(self, count: int, figures: str = "") -> None: ...


@contextmanager
def progress_bar(total: int | None, what: str, done: int = 0) -> Iterator[Advance]:
    """A progress bar on standard error, if that is a terminal, and the function that advances it."""
    columns = (
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=total, completed=done)

        def advance(count: int, figures: str = "") -> None:
            nonlocal done
            done += count
            if err.is_terminal:
                text = f"{counted(done, what)}  {figures}"
                progress.update(task, completed=done, description=text)

        yield advance


@contextmanager
def report_failures() -> Iterator[None]:
    """Print an expected error as one line and exit with status 1."""
    try:
        yield
    except StartError:
        raise  # `main` reports it, with status 2
    except (NovikoffError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # the reader has closed our output: there is nowhere to report to
        err.print(f"novikoff: {_words(error)}", soft_wrap=True)
        raise typer.Exit(1) from None


def _words(error: NovikoffError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
