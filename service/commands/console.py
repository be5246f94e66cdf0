"""Output of the commands, common options, and how errors are reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from service.client.connecting import DEFAULT_URL
from service.errors import NovikoffError, StartError

# Names and labels are text, never markup.
out = Console(markup=False, highlight=False)
err = Console(markup=False, highlight=False, stderr=True)

Url = Annotated[str, typer.Option(metavar="URL", help="The service.")]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="The API key, if the service asks for one.")]
URL = DEFAULT_URL


class CommandFailed(NovikoffError):
    """An error that the user can fix; its text is for them."""

    code = "command-failed"


@contextmanager
def report_failures() -> Iterator[None]:
    """Print an expected error as one line and exit with status 1."""
    try:
        yield
    except StartError:
        raise  # `main` reports it, with status 2
    except (NovikoffError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # the reader of our output has closed it, so there is nobody to report to
        err.print(f"novikoff: {_words(error)}", soft_wrap=True)
        raise typer.Exit(1) from None


def _words(error: NovikoffError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
