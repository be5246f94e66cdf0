"""Containers for the tests: podman, and Docker Compose that drives podman through its socket."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from tests.support.markdown import ROOT
from tests.support.ports import free_ports
from tests.support.waiting import eventually

HERE = Path(__file__).parent
SCRATCH = Path(os.environ.get("IMAGE_TEST_SCRATCH", "/var/tmp/novikoff-image-test"))
COMPOSE = SCRATCH / "docker-compose"
CONFIGURATION = {
    "CONTAINERS_STORAGE_CONF": SCRATCH / "storage.conf",
    "CONTAINERS_CONF": SCRATCH / "containers.conf",
}
ENVIRONMENT = {name: str(path) for name, path in CONFIGURATION.items()}
IMAGE = f"localhost/novikoff:{version('novikoff')}"
SECONDS = 120

CONFINED = (
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:size=64m,mode=1777"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--cpus", "2", "--memory", "1g", "--pids-limit", "256"),
)
"""As the compose file confines the service."""


def podman(
    *arguments: object, check: bool = True, seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        ["podman", *map(str, arguments)],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == 0 or not check, f"podman {' '.join(map(str, arguments))}: {ended.stderr}"
    return ended


def compose_images() -> list[str]:
    services = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
    return sorted({service["image"] for service in services.values()})


class Container:
    """A container that was made by podman or by compose."""

    def __init__(self, name: str, port: int = 0) -> None:
        self.name = name
        self._port = port
        self._clients: list[httpx.Client] = []

    @property
    def client(self) -> httpx.Client:
        if not self._clients:
            url = f"http://127.0.0.1:{self._port}"
            self._clients.append(httpx.Client(base_url=url, timeout=60, trust_env=False))
        return self._clients[0]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    @property
    def state(self) -> dict[str, Any]:
        (told,) = YAML(typ="safe").load(podman("inspect", self.name).stdout)
        state: dict[str, Any] = told["State"]
        return state

    @property
    def log(self) -> str:
        told = podman("logs", self.name, check=False)
        return told.stdout + told.stderr

    def execute(self, *command: object, check: bool = True) -> str:
        ended = podman("exec", self.name, *command, check=check)
        return ended.stdout + ("" if check else ended.stderr)

    def signal(self, name: str) -> None:
        podman("kill", "--signal", name, self.name)

    def wait(self) -> int:
        """The exit status, once it has ended."""
        eventually(lambda: not self.state["Running"], SECONDS, otherwise=f"{self.name} goes on", every=0.2)
        return int(self.state["ExitCode"])

    def until_ready(self) -> "Container":
        try:
            eventually(self.is_ready, SECONDS, every=0.1)
        except AssertionError:
            raise AssertionError(f"{self.name} is not ready: {self.state['Status']} {self.log}") from None
        return self

    def is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running(
    *arguments: object, options: tuple[object, ...] = (), confined: bool = True
) -> Iterator[Container]:
    """`podman run` of our image, published to this machine on a free port, until the end of the block."""
    (port,) = free_ports(1)
    published = f"127.0.0.1:{port}"
    inside = dict(pairwise(arguments)).get("--port", 8000)
    name = f"novikoff-image-test-{port}"
    more = ("--publish", f"{published}:{inside}", "--env", f"NOVIKOFF_PUBLISHED={published}")
    podman(
        "run", "--detach", "--name", name, *(CONFINED if confined else ()), *more, *options, IMAGE, *arguments
    )
    container = Container(name, port)
    try:
        yield container
    finally:
        container.close()
        podman("rm", "--force", "--volumes", "--time", "0", name, check=False)


class Project:
    """A compose project in a copy of what an operator has: the compose file and what it names."""

    def __init__(self, name: str, directory: Path, socket: str) -> None:
        self.name = name
        self.directory = directory
        self._containers: dict[tuple[str, int], Container] = {}
        self._environment = os.environ | ENVIRONMENT | {"DOCKER_HOST": socket, "COMPOSE_PROJECT_NAME": name}

    def compose(
        self, *arguments: str, check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [COMPOSE, *arguments],
            cwd=self.directory,
            env=self._environment | variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0 or not check, f"compose {' '.join(arguments)}: {ended.stderr}"
        return ended

    def container(self, service: str, port: int = 0) -> Container:
        container = Container(f"{self.name}-{service}-1", port)
        return self._containers.setdefault((service, port), container)

    def close(self) -> None:
        for container in self._containers.values():
            container.close()
        profiles = ("--profile", "cluster", "--profile", "monitoring")
        self.compose(*profiles, "down", "--volumes", "--timeout", "0", check=False)

    def up(self, *arguments: str, **variables: str) -> None:
        """Health checks are run meanwhile: podman leaves that to systemd, which is not here."""
        done = threading.Event()
        checking = threading.Thread(target=self._check_health, args=(done,))
        checking.start()
        try:
            self.compose(*arguments, **variables)
        finally:
            done.set()
            checking.join()

    def _check_health(self, done: threading.Event) -> None:
        while not done.is_set():
            mine = ("--filter", f"label=com.docker.compose.project={self.name}")
            for container in podman("ps", "--quiet", *mine).stdout.split():
                podman("healthcheck", "run", container, check=False)
            done.wait(0.5)


@contextmanager
def api() -> Iterator[str]:
    """The address of podman's socket, on which it speaks as a Docker engine does."""
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory) / "socket"
        address = f"unix://{socket}"
        with (SCRATCH / "api.log").open("w") as log:
            service = subprocess.Popen(
                ["podman", "system", "service", "--time", "0", address],
                env=os.environ | ENVIRONMENT,
                stdout=log,
                stderr=log,
            )
        try:
            eventually(socket.exists, SECONDS, otherwise=SCRATCH / "api.log")
            yield address
        finally:
            service.terminate()
            service.wait(60)
