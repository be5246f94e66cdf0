"""What commands print, and how they fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from service.client import Refused, Unreachable
from service.client.connecting import DEFAULT_URL
from service.errors import NovikoffError

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
    except (CommandFailed, Refused, Unreachable) as error:
        err.print(f"novikoff: {error}", soft_wrap=True)
        raise typer.Exit(1) from None
