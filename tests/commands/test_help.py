"""What the command line says about itself."""

from importlib.metadata import version

import typer
from typer.core import TyperGroup

from service.cli import cli
from tests.commands.running import worked

COMMANDS = {"serve", "replay", "top", "export", "import", "history", "doctor", "key", "migrate"}


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    group = typer.main.get_command(cli)
    assert isinstance(group, TyperGroup) and group.commands.keys() == COMMANDS
    for name, command in group.commands.items():
        assert command.help and command.help.split("\n")[0].endswith("."), name
        assert command.help.split("\n")[0].rstrip(".") in worked(name, "--help").replace("\n", " ")
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


def test_the_version_is_told() -> None:
    assert worked("--version").split() == ["novikoff", version("novikoff")]
