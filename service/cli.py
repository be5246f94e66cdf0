"""The command line."""

import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn

from service.app import create_app
from service.errors import StartError
from service.settings import Settings, load_settings

cli = typer.Typer(
    help="Online learning over HTTP: predict, reveal, update.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the writer thread. The default of 5 ms would be
added to every group commit of a busy service."""


@cli.callback()
def _novikoff() -> None:
    pass


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help=Settings.model_fields["host"].description)] = None,
    port: Annotated[int | None, typer.Option(help=Settings.model_fields["port"].description)] = None,
    data: Annotated[Path | None, typer.Option(help=Settings.model_fields["data"].description)] = None,
) -> None:
    """Run the service. All other settings are environment variables: see the README."""
    settings = load_settings(host=host, port=port, data=data)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    Server(settings).run()


class Server(uvicorn.Server):
    """uvicorn, set up for this service: no access log, and exit status 0 when told to stop."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(settings),
                host=settings.host,
                port=settings.port,
                log_level=settings.log_level,
                access_log=False,
                server_header=False,
                date_header=False,
                lifespan="on",
                timeout_graceful_shutdown=round(settings.shutdown_seconds),
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again in the end, and the process would die of it.
        self.should_exit = True


def main() -> None:
    try:
        cli()
    except StartError as error:
        print(f"novikoff: {error.detail}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
