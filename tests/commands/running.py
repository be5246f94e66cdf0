"""The command line, run in this process: what it prints, and how it ends."""

from dataclasses import dataclass

from typer.testing import CliRunner

from service.cli import cli
from service.commands import console

WIDTH = 200


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    out: str
    err: str


def novikoff(*arguments: object, stdin: bytes = b"") -> Ended:
    """Run a command with room enough for its lines."""
    console.out.width = console.err.width = WIDTH
    runner = CliRunner()
    result = runner.invoke(
        cli, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False
    )
    return Ended(result.exit_code, result.stdout, result.stderr)


def worked(*arguments: object, stdin: bytes = b"") -> str:
    """What a command that has to work prints."""
    ended = novikoff(*arguments, stdin=stdin)
    assert ended.status == 0, ended
    return ended.out


def failed(*arguments: object, stdin: bytes = b"") -> str:
    """What a command that has to fail says."""
    ended = novikoff(*arguments, stdin=stdin)
    assert ended.status == 1 and ended.err.startswith("novikoff: "), ended
    return ended.err
