"""Real NATS servers in processes of their own, on free loopback ports, every write synced."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports
from tests.support.waiting import eventually

PROGRAM = Path(sys.executable).parent / "nats-server"

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


ANSWER_SECONDS = 60


class NatsServer:
    """One server with room for `max_file`; `more` goes into its configuration."""

    def __init__(
        self,
        directory: Path,
        name: str = "n1",
        *,
        sync: str = "always",
        max_file: str = "4G",
        more: str = "",
    ) -> None:
        self.name = name
        self.directory = directory
        self.port, self.monitor_port, self.cluster_port = free_ports(3)
        self.routes: list[int] = []
        self.jetstream = True
        self._sync = sync
        self._max_file = max_file
        self._more = more

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor(self) -> str:
        return f"http://127.0.0.1:{self.monitor_port}"

    def settings(self, prefix: str) -> dict[str, object]:
        """The settings of a service whose journal is here."""
        return {
            "journal": self.url,
            "nats_monitor": self.monitor,
            "nats_prefix": prefix,
            "nats_replicas": 1,
        }

    def start(self) -> "NatsServer":
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.conf"
        config.write_text(self._config())
        with (self.directory / "log").open("a") as log:
            self.process = subprocess.Popen([PROGRAM, "-c", config], stdout=log, stderr=log)
        return self

    def _config(self) -> str:
        store = f'store_dir: "{self.directory}/store"'
        lines = [
            f'server_name: "{self.name}"',
            f'listen: "127.0.0.1:{self.port}"',
            f'http: "127.0.0.1:{self.monitor_port}"',
            self._more,
        ]
        if self.jetstream:
            limits = f"max_mem: 64M, max_file: {self._max_file}"
            lines.append(f"jetstream {{ {store}, sync_interval: {self._sync}, {limits} }}")
        if self.routes:
            routes = ", ".join(f'"nats-route://127.0.0.1:{port}"' for port in self.routes)
            lines.append(
                f'cluster {{ name: "tests", listen: "127.0.0.1:{self.cluster_port}", routes: [{routes}] }}'
            )
        return "\n".join(lines) + "\n"

    def ask(self, path: str) -> dict[str, Any]:
        with _open(f"{self.monitor}/{path}", timeout=ANSWER_SECONDS) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def wait_until_healthy(self) -> None:
        log = self.directory / "log"

        def is_healthy() -> bool:
            assert self.process.poll() is None, log.read_text()
            return bool(self.ask("healthz")["status"] == "ok")

        eventually(is_healthy, otherwise=log, not_yet=OSError)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class NatsCluster:
    """Three servers that know each other."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.servers = [NatsServer(directory / f"n{i}", f"n{i}") for i in range(1, count + 1)]
        for server in self.servers:
            server.routes = [other.cluster_port for other in self.servers if other is not server]

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    @property
    def monitors(self) -> str:
        return ",".join(server.monitor for server in self.servers)

    def settings(self, prefix: str) -> dict[str, object]:
        """The settings of a service whose journal is here."""
        return {"journal": self.url, "nats_monitor": self.monitors, "nats_prefix": prefix}

    def start(self) -> "NatsCluster":
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_until_healthy()
        eventually(self._has_leader, otherwise="the servers choose no leader", not_yet=OSError)
        return self

    def _has_leader(self) -> bool:
        meta = self.servers[0].ask("jsz").get("meta_cluster", {})
        return bool(meta.get("leader")) and meta.get("cluster_size") == len(self.servers)

    def leader_of(self, stream: str) -> NatsServer | None:
        """The server that leads a stream, if a living one knows."""
        for server in self.servers:
            if server.process.poll() is not None:
                continue
            try:
                told = server.ask("jsz?streams=1&accounts=1")
            except OSError:  # it starts, or has just ended
                continue
            for account in told.get("account_details", []):
                for detail in account.get("stream_detail", []):
                    leader = detail.get("cluster", {}).get("leader")
                    if detail["name"] == stream and leader:
                        return next(one for one in self.servers if one.name == leader)
        return None

    def close(self) -> None:
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()
