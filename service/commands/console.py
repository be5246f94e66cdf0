"""What commands print, and how they fail."""

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
    """What the user can mend, in words for them."""

    code = "command-failed"


@contextmanager
def failures_told() -> Iterator[None]:
    """A failure that was foreseen becomes one line and exit status 1."""
    try:
        yield
    except StartError:
        raise  # `main` tells it, with another status
    except (NovikoffError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # whoever read what we print has gone: nobody is left to tell
        err.print(f"novikoff: {_words(error)}", soft_wrap=True)
        raise typer.Exit(1) from None


def _words(error: NovikoffError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
