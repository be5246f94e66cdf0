"""The command line. The module of a command is imported when it is called, so that no command waits for another's."""

import gc
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.errors import StartError

COMMANDS = {
    "serve": "service.commands.serve:serve",
    "replay": "service.commands.replay.command:replay",
    "top": "service.commands.top:top",
    "export": "service.commands.transfer:export_model",
    "import": "service.commands.transfer:import_model",
    "history": "service.commands.transfer:history",
    "backup": "service.commands.backup:backup",
    "restore": "service.commands.backup:restore",
    "doctor": "service.commands.doctor.command:doctor",
    "migrate": "service.commands.migrate:migrate",
    "key": "service.commands.key:key",
}
"""Where the function of each command is; --help lists them in this order."""


class Commands(TyperGroup):
    """The commands above."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name].split(":")
        if module not in sys.modules:
            # Imported modules are never freed: garbage collections during the start need not look through them.
            gc.disable()
            import_module(module)
            gc.freeze()
            gc.enable()
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name)(getattr(sys.modules[module], function))
        return typer.main.get_command(alone)


cli = typer.Typer(
    cls=Commands,
    help="Online learning over HTTP: predict, reveal, update.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"novikoff {version('novikoff')}")
        raise typer.Exit


@cli.callback()
def _novikoff(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    try:
        cli()
    except StartError as error:
        print(f"novikoff: {error.detail}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
