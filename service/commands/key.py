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
    name: Annotated[str, typer.Option(metavar="NAME", help="Whose it is, for you to tell keys apart.")],
    role: Annotated[
        RoleName,
        typer.Option(help="read: statistics and models; write: also rounds; admin: everything."),
    ] = RoleName.write,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only models whose names begin so; others look absent.")
    ] = "",
) -> None:
    """Make an API key. It is shown once, with the line that lets a service know it."""
    with report_failures():
        try:
            secret, made = make_key(name, role, prefix)
        except BadKeys as error:
            raise CommandFailed(str(error)) from None
    err.print("The key, for its holder; it is not kept anywhere:")
    out.print(secret, soft_wrap=True)
    err.print("For NOVIKOFF_API_KEYS, or a line of the file of NOVIKOFF_API_KEYS_FILE:")
    out.print(made.line, soft_wrap=True)
