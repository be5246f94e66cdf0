"""What the command line says about itself, and that a command waits for no other."""

import subprocess
import sys
from importlib.metadata import version

import typer
from typer.core import TyperGroup

from service.cli import cli
from tests.commands.running import worked
from tests.support.markdown import DOCS


def test_every_command_and_every_option_says_what_it_is_for() -> None:
    group = typer.main.get_command(cli)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None and command.help and command.help.split("\n")[0].endswith("."), name
        assert command.help.split("\n")[0].rstrip(".") in worked(name, "--help").replace("\n", " ")
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


def test_the_page_on_the_command_line_has_every_command_and_every_option() -> None:
    group = typer.main.get_command(cli)
    assert isinstance(group, TyperGroup)
    page = DOCS["command-line.md"]
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None and f"novikoff {name}" in page, name
        missing = [p.opts for p in command.params if p.param_type_name == "option" and p.opts[0] not in page]
        assert not missing, (name, missing)


def test_the_version_is_told() -> None:
    assert worked("--version").split() == ["novikoff", version("novikoff")]


def test_a_start_of_the_service_waits_for_nothing_that_only_other_commands_need() -> None:
    imported = subprocess.run(
        [sys.executable, "-c", "import sys, service.cli, service.commands.serve; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    commands = {name for name in imported if name.startswith("service.commands.")}
    assert commands == {"service.commands.serve"} and "httpx" not in imported
