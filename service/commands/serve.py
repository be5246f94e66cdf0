"""`novikoff serve`: the service itself."""

import gc
import logging
import resource
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from socket import socket
from time import monotonic
from types import FrameType
from typing import Annotated, Any

import typer
import uvicorn

from service.app import create_app
from service.runtime import logs
from service.runtime.cooperative import favour_the_loop
from service.runtime.environment import PREFIX
from service.runtime.listening import is_for_this_machine, listen
from service.runtime.memory import FreeMemory, do_without_unused, manage_memory
from service.settings import Settings, load_settings
from service.web.access.gate import trusted_proxies
from service.web.http.connection import protocol_for
from service.web.http.connection_limits import (
    PROBE_CONNECTIONS,
    SWEEP_SECONDS,
    ConnectionLimiter,
    SlowClients,
)
from service.web.routes.rounds import QuickPaths

TICK_SECONDS = 0.1
"""How often uvicorn calls `on_tick`."""

OTHER_FILES = 100 + PROBE_CONNECTIONS
"""Open files that are no ordinary connections: the journal and those who read it, fits, keys, pipes, probes."""

log = logging.getLogger(__name__)


def _option(setting: str) -> Any:
    field = Settings.model_fields[setting]
    return typer.Option(help=field.description, show_default=f"{PREFIX}{setting.upper()} or {field.default}")


def serve(
    host: Annotated[str | None, _option("host")] = None,
    port: Annotated[int | None, _option("port")] = None,
    data: Annotated[Path | None, _option("data")] = None,
    allow_anonymous: Annotated[bool | None, _option("allow_anonymous")] = None,
) -> None:
    """Run the service. Other settings are environment variables: docs/settings.md."""
    manage_memory()
    do_without_unused()
    settings = load_settings(host=host, port=port, data=data, allow_anonymous=allow_anonymous)
    logs.configure(settings.log_format, settings.log_level, features=settings.log_features)
    connections_max = min(settings.connections_max, _connections_possible())
    sockets = listen(settings.host, settings.port)
    try:
        Server(settings, connections_max=connections_max).run(sockets)
    finally:
        for bound in sockets:  # uvicorn has closed them, unless it never came so far
            bound.close()


def _connections_possible() -> int:
    """Every connection is an open file, and the usual soft limit is a thousand: as many as the hard one allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else max(1, files - OTHER_FILES)


class Server(uvicorn.Server):
    """uvicorn, set up for this service: a line for its start and one for its end, exit status 0 when told to stop."""

    def __init__(self, settings: Settings, *, connections_max: int) -> None:
        self._app = create_app(settings)
        self._settings = settings
        super().__init__(
            uvicorn.Config(
                self._app,
                host=settings.host,
                port=settings.port,
                http=protocol_for(  # type: ignore[arg-type]  # makes one, as a class does
                    self._app,
                    limiter=ConnectionLimiter(
                        connections_max, settings.connections_per_address_max, trusted_proxies(settings)
                    ),
                    held=self._app.held,
                    bytes_max=settings.connection_bytes_max,
                    head_bytes_max=settings.head_bytes_max,
                    quick_paths=QuickPaths(),
                ),
                ws="none",
                log_config=None,  # service.runtime.logs has seen to it
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                lifespan="on",
                timeout_graceful_shutdown=round(settings.shutdown_seconds),
            )
        )
        self._slow_clients = SlowClients(
            self.server_state.connections,  # type: ignore[arg-type]  # of our class
            request_seconds=settings.request_timeout_seconds,
            stream_idle_seconds=settings.stream_idle_seconds,
            keep_alive_seconds=self.config.timeout_keep_alive,
        )
        self._free_memory = FreeMemory()

    async def on_tick(self, counter: int) -> bool:
        if counter % round(SWEEP_SECONDS / TICK_SECONDS) == 0:
            self._slow_clients.sweep()
        self._free_memory.look()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket] | None = None) -> None:
        began = monotonic()
        try:
            await super().startup(sockets)
        except SystemExit:
            if self._app.start_error is not None:
                raise self._app.start_error from None
            raise
        if not self.started:
            return
        _spare_the_collector()
        favour_the_loop()
        self._started_at = monotonic()
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        fields = {
            "version": version("novikoff"),
            "address": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
            "data": str(self._settings.data.absolute()),
            "durability": self._settings.durability,
            "access": access(self._settings),
            "seconds": round(self._started_at - began, 3),
        }
        log.info("running on %s with version %s", fields["address"], fields["version"], extra=fields)
        if fields["access"] == "everybody":
            log.warning("no API keys are configured: anyone who can reach the service has full access")

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        await super().shutdown(sockets)
        log.info("stopped", extra={"ran_seconds": round(monotonic() - self._started_at, 3)})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again in the end, and the process would die of it.
        self.should_exit = True
        self._app.on_stop()


def access(settings: Settings) -> str:
    """Who may use the service."""
    if settings.api_keys or settings.api_keys_file:
        return "keys"
    local = is_for_this_machine(settings.host, settings.published) and not settings.allow_anonymous
    return "this machine" if local else "everybody"


def _spare_the_collector() -> None:
    """Keep garbage collections short: what was made for the start stays, and is not looked through again.

    Requests leave hardly any cycles behind (`errors.kept`), but make many objects; a collection of all 200,000 objects
    that the imports have made held every request up for 20 ms. Of what is younger, one takes up to a microsecond for
    each object: so the small ones come early, and those of everything, which find next to nothing, seldom.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 500)
