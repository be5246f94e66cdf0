"""`novikoff key`: a new API key."""

from enum import StrEnum
from typing import Annotated

import typer

from service.commands.console import CommandFailed, err, out, report_failures
from service.web.access.keys import BadKeys, make_key


class RoleName(StrEnum):
    read = "read"
    write = "write"
    admin = "admin"


def key(
    name: Annotated[str, typer.Option(metavar="NAME", help="A name for the key.")],
    role: Annotated[
        RoleName,
        typer.Option(help="read: statistics and models; write: also rounds; admin: everything."),
    ] = RoleName.write,
    prefix: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Limit the key to models with this prefix; all others look absent."
        ),
    ] = "",
) -> None:
    """Create an API key. It is shown once, with a line for the settings."""
    with report_failures():
        try:
            secret, made = make_key(name, role, prefix)
        except BadKeys as error:
            raise CommandFailed(str(error)) from None
    err.print("API key (not stored anywhere):")
    out.print(secret, soft_wrap=True)
    err.print("Line for NOVIKOFF_API_KEYS or for the file named by NOVIKOFF_API_KEYS_FILE:")
    out.print(made.line, soft_wrap=True)
