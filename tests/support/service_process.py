"""A real service in a process of its own, and its journal read from outside."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import msgspec

from service.engine.fleet.live import model_from
from service.engine.models.model import Model
from service.events import ModelCreated, ModelImported
from service.journal.protocol import Recorded
from service.journal.sqlite import reading
from service.journal.sqlite.schema import open_reader
from service.journals import make_journal
from service.settings import Settings
from service.web.http.responses import json_slices
from service.web.routes.exports import read_weights
from tests.support.forkserver import Forked, environment, fork
from tests.support.waiting import PATIENCE_SECONDS, eventually

ANSWER_SECONDS = PATIENCE_SECONDS
NO_TLS = False
"""For `verify`: nobody speaks TLS here, and a client takes 30 ms of a core to load the authorities."""


KEPT_OPEN_SECONDS = 2.0
"""How long a connection without a request is used again: less than the 5 s after which a service closes it, or a
request could be on its way at that moment."""


def http_client(**options: Any) -> httpx.Client:
    """A client for services of tests."""
    limits = httpx.Limits(keepalive_expiry=KEPT_OPEN_SECONDS)
    return httpx.Client(timeout=ANSWER_SECONDS, verify=NO_TLS, limits=limits, **options)


class Service:
    """`novikoff serve` on a free port. Settings are given as in the environment, without the prefix."""

    port = "0"
    program: tuple[str, ...] = (sys.executable, "-m", "service")
    """What is run in an interpreter of its own."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.data = data
        # A shared machine's disk stands still for seconds at times, and a busy one gives a process no core for as long;
        # only tests of overload are about that.
        self.settings = {"queue_seconds_max": 60, "loop_pause_seconds_max": 60} | settings
        self.log: list[str] = []
        self.client = http_client()
        self.clients: list[httpx.Client] = []
        """Those of people with keys, to be closed in the end."""

    def start(self, *, cold: bool = False, files: int | None = None) -> "Service":
        """Until it says that it runs. `cold`: with an interpreter of its own, which takes a second longer.

        `files`: the most that it may have open; this is for an interpreter of its own, too.
        """
        arguments = ["serve", "--data", str(self.data), "--port", self.port]
        log, written = os.pipe()
        self.process: Forked | subprocess.Popen[bytes]
        if cold or files is not None:
            command = [*self.program, *arguments]
            if files is not None:
                command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
            self.process = subprocess.Popen(command, env=environment(**self.settings), stderr=written)
        else:
            self.process = fork(arguments, self.settings, out=1, err=written)
        os.close(written)
        told, runs = threading.Event(), threading.Event()
        self._reader = threading.Thread(target=self._read_log, args=(log, told, runs), daemon=True)
        self._reader.start()
        assert told.wait(PATIENCE_SECONDS) and runs.is_set(), "".join(self.log)
        return self

    def _read_log(self, log: int, told: threading.Event, runs: threading.Event) -> None:
        """To its end; `told` as soon as it is clear whether the service runs."""
        with os.fdopen(log) as lines:
            for line in lines:
                self.log.append(line)
                running = re.search(r"running on (http://\S+)", line)
                if running:
                    self.url = running[1]
                    self.client.base_url = httpx.URL(self.url)
                    runs.set()
                    told.set()
        told.set()

    @property
    def writer_pid(self) -> int:
        """The process that writes the journal; fits and imports have some, too."""
        return self.child_running("writer_process")

    @property
    def pid(self) -> int:
        return self.process.pid

    def child_running(self, module: str) -> int:
        """The process that runs a module of this name for the service."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
        (child,) = (c for c in children if module.encode() in _command_line(c))
        return int(child)

    def wait_for_log(self, text: str, *, times: int = 1, after: int = 0) -> str:
        """The first line with this text, once so many lines have it; a line may come after the answer it is about.

        `after`: so many lines from the beginning are passed over.
        """

        def found() -> list[str]:
            return [line for line in self.log[after:] if text in line]

        eventually(lambda: len(found()) >= times, otherwise=lambda: f"no {text!r} in: {''.join(self.log)}")
        return found()[0]

    def wait_for_end(self) -> int:
        """The exit status of a service that ends by itself; its log has been read to the end then."""
        return self._wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()
        self._wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _wait(self) -> int:
        status = self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        self.client.close()
        self.client = http_client()
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._wait()
        for client in (self.client, *self.clients):
            client.close()

    # What clients do

    def predict(self, model: str, features: Any, **more: Any) -> dict[str, Any]:
        return self.post("/predict", {"model": model, "features": features, **more})

    def reveal(self, prediction_id: str, label: Any, **more: Any) -> dict[str, Any]:
        return self.post("/feedback", {"prediction_id": prediction_id, "label": label, **more})

    def stream(self, lines: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
        """The answers to lines of a stream."""
        answer = self.client.post(
            f"/stream?model={model}",
            content=b"".join(msgspec.json.encode(line) + b"\n" for line in lines),
            headers={"content-type": "application/x-ndjson"},
        )
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.content.splitlines()]

    def learn(self, model: str, features: Any, label: Any, **more: Any) -> dict[str, Any]:
        return self.post("/learn", {"model": model, "features": features, "label": label, **more})

    def create(self, model: str, **settings: Any) -> dict[str, Any]:
        return self.post("/models", {"model": model, **settings})

    def stats(self, model: str) -> dict[str, Any]:
        return self.get(f"/stats/{model}")

    def weights(self, model: str) -> tuple[list[float], float | None]:
        """The weights and the bias of a model of two classes."""
        (row,) = self.get(f"/models/{model}/weights")["classes"]
        return row["weights"], row["bias"]

    def get(self, path: str) -> dict[str, Any]:
        return _good(self.client.get(path))

    def post(self, path: str, body: Any) -> dict[str, Any]:
        return _good(self.client.post(path, json=body))

    def refused(self, path: str, body: Any) -> tuple[int, str]:
        """The status and the code of a request that has to fail."""
        answer = self.client.post(path, json=body)
        return problem_of(answer)

    # What the journal says

    def recorded(self, model: str) -> list[Recorded]:
        """The journal's events of a model, read by somebody else."""
        if "journal" in self.settings:
            return asyncio.run(_recorded_in_cluster(self.settings, model))
        connection = open_reader(self.data / "journal.sqlite")
        recorded = reading.events(connection, model, 0, -1)
        connection.close()
        return recorded

    def fold(self, model: str) -> Model:
        """The model that the journal's events, all of them, make."""
        recorded = self.recorded(model)
        made_by = recorded[0].event
        assert isinstance(made_by, ModelCreated | ModelImported), "the journal was trimmed"
        folded = model_from(made_by)
        for event in recorded[1:]:
            folded.apply(event.event)
        return folded

    def assert_replay_equals_live(self, model: str) -> None:
        """A replay of the journal gives what the service serves, to the bit."""
        folded = self.fold(model)
        weights = self.get(f"/models/{model}/weights")
        assert weights == msgspec.json.decode(b"".join(json_slices(read_weights(folded, None))))
        stats = self.stats(model)
        assert stats["version"] == folded.version
        assert stats["rounds"]["revealed"] == folded.revealed
        report = msgspec.json.decode(msgspec.json.encode(folded.report(0)))
        for clock in ("minute", "hour", "day"):  # these depend on when one asks
            del report["windows"][clock], stats["windows"][clock]
        assert {field: stats[field] for field in report} == report


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return b""


async def _recorded_in_cluster(settings: dict[str, Any], model: str) -> list[Recorded]:
    journal = make_journal(Settings(**settings))
    await journal.open(lambda seq, event: None)
    recorded = await journal.events(model, after=0, limit=-1)
    await journal.close()
    return recorded


def _good(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 201, 202), answer.text
    decoded: dict[str, Any] = answer.json()
    return decoded


def problem_of(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of a problem document, which must be well formed."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert {"type", "title", "status", "detail", "code"} <= document.keys()
    assert document["type"].endswith(document["code"])
    return answer.status_code, document["code"]
