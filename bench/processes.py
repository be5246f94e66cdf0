"""Servers in processes of their own, and what the kernel knows about them."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
START_SECONDS = 60
STOP_SECONDS = 300
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

UVICORN = (
    *("--host", HOST, "--port", "0", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
    *("--no-access-log", "--no-server-header", "--no-date-header"),
)
"""The settings of the service, for the peers."""


class NotMeasured(Exception):
    """Why there is no figure."""


class Server:
    """A server on a free port, which it tells on its standard error as uvicorn does."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self._command = command
        self._environment = environment

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NOVIKOFF_")}
        self.port = 0
        self._log: deque[str] = deque(maxlen=20)
        self._started = threading.Event()
        self._process = subprocess.Popen(
            self._command, env=inherited | self._environment, stderr=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self._started.wait(START_SECONDS)
        if not self.port:
            self.stop()
            raise NotMeasured(f"{' '.join(self._command[1:4])} does not start: {(self._log or ['?'])[-1]}")

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line.strip())
            running = re.search(r"running on http://\S+:(\d+)", line)
            if running:
                self.port = int(running[1])
                self._started.set()
        self._process.stderr.close()
        self._started.set()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def get(self, path: str) -> bytes:
        """The answer to GET, which must be 200."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            return get(connection, path)
        finally:
            connection.close()

    def post(self, path: str, body: bytes, content_type: str = "application/json") -> bytes:
        """The answer to POST, which must be 2xx."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=300)
        try:
            connection.request("POST", path, body, {"content-type": content_type})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise NotMeasured(f"POST {path} answered {answer.status}: {content[:200].decode()}")
        return content

    def wait_until_ready(self) -> None:
        """Until `/readyz` says so."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.get("/readyz")
                return
            except (OSError, NotMeasured):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def rss_bytes(self) -> int:
        """Resident memory of the process and its children; pages that they share count twice."""
        return sum(_rss_bytes(pid) for pid in [self.pid, *_children(self.pid)])

    def cpu_seconds(self) -> float:
        """Of the process itself, its children left out."""
        return _cpu_seconds(self.pid)

    def cpu_seconds_in_all(self) -> float:
        """Of the process and its children."""
        return sum(_cpu_seconds(pid) for pid in [self.pid, *_children(self.pid)])


def get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise NotMeasured(f"GET {path} answered {answer.status}: {content[:200].decode()}")
    return content


def novikoff(data: Path, **settings: object) -> Server:
    """The service with its default settings but for these, and durable against a power cut."""
    environment = {f"NOVIKOFF_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--data", str(data)]
    return Server(command, NOVIKOFF_DURABILITY="power", **environment)


def peer(app: str) -> Server:
    """An ASGI app under the same uvicorn as the service."""
    return Server([sys.executable, "-m", "uvicorn", app, *UVICORN])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0
