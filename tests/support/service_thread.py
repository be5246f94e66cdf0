"""The service in a thread of the test's own process, on a real socket: a start without a fork or another interpreter.

It is what `novikoff serve` runs, less what belongs to a process: signals, the allocator, how the log is written. Tests
that kill, signal or measure a service start one of `tests/support/service_process.py`.
"""

import asyncio
import logging
import os
import threading
from socket import socket
from typing import Any

import httpx

from service.commands.serve import Server
from service.runtime.listening import listen
from service.runtime.logs import ConsoleLines, JsonLines
from service.settings import Settings
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS


class ServiceThread(Service):
    """Started, stopped and asked as a `Service` is. Its log has the lines of all services of this process."""

    process: Any = None
    _thread: threading.Thread | None = None

    def start(self, **_: Any) -> "ServiceThread":
        self._started, self._failure = threading.Event(), None
        settings = Settings(data=self.data, port=0, **self.settings)
        self._log_handler = _Lines(self.log, settings)
        self._log_handler.install()
        self._thread = threading.Thread(target=self._run, args=(settings,), daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS), "the service has not started"
        if self._failure is not None:
            self._wait()
            raise self._failure
        return self

    def _run(self, settings: Settings) -> None:
        try:
            sockets = listen(settings.host, settings.port)
            try:
                self._server = _Server(settings, self._is_running)
                self._server.run(sockets)
            finally:
                for each in sockets:
                    each.close()
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    def _is_running(self, host: str, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.url = f"http://{host}:{port}"
        self.client.base_url = httpx.URL(self.url)
        self._started.set()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> int:
        """As SIGTERM does it."""
        if self.is_running:
            self._loop.call_soon_threadsafe(self._server.handle_exit, 0, None)
        return self._wait()

    def kill(self) -> None:
        raise AssertionError("a thread cannot be killed: start a process")

    def _wait(self) -> int:
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the service has not stopped"
        self._log_handler.uninstall()
        self.client.close()
        self.client = httpx.Client(timeout=self.client.timeout, verify=False)
        return 0

    def close(self) -> None:
        if self.is_running:
            self.stop()
        for client in (self.client, *self.clients):
            client.close()


class _Server(Server):
    def __init__(self, settings: Settings, is_running: Any) -> None:
        super().__init__(settings, connections_max=1_000)
        self.config.loop = "asyncio"  # uvloop learns of the end of child processes in the main thread only
        self._is_running = is_running

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._is_running(*self.servers[0].sockets[0].getsockname()[:2])


class _Lines(logging.Handler):
    """What `service.runtime.logs.configure` would write to standard error, in a list."""

    def __init__(self, lines: list[str], settings: Settings) -> None:
        super().__init__(settings.log_level.upper())
        formatter = JsonLines if settings.log_format == "json" else ConsoleLines
        self.setFormatter(formatter(features=settings.log_features))
        self._lines = lines

    def install(self) -> None:
        self._logger = logging.getLogger("service")
        self._level = self._logger.level
        self._logger.setLevel(min(self.level, self._level or self.level))
        self._logger.addHandler(self)

    def uninstall(self) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record) + "\n")
