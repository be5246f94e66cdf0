"""python -m bench.cluster: how long a new replica takes to start under load, and what events cost the NATS servers.

One replica serves predictions with 64 features (512 bytes) and reveals them, without a pause. After so many reveals a
process of its own starts a second replica's journal, and tells how long that took. Then each server is asked for the
sizes of the streams and its memory, and the directories are measured.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from service.events import ModelCreated, Prediction, RoundRevealed
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.connecting import Access
from service.journal.jetstream.streams import Options
from service.journal.protocol import Summary
from tests.support.nats_servers import NatsCluster, NatsServer

MODELS = 200
IN_FLIGHT = 200
KEPT = 10**9
FEATURES = os.urandom(512)
SUMMARISE_SECONDS = 10.0
STARTS = 3
"""So many are measured at each place."""


def journal_at(url: str, replicas: int) -> JetStreamJournal:
    return JetStreamJournal(
        Options(Access(tuple(url.split(","))), "b", replicas, (), 60.0, 20_000, KEPT, 172_800, 172_800)
    )


async def start_once(url: str, replicas: int) -> None:
    began = time.perf_counter()
    journal = journal_at(url, replicas)
    await journal.open(lambda seq, event: None)
    print(time.perf_counter() - began, flush=True)
    os._exit(0)  # as a replica that is killed: closing is not what is measured


class Load:
    """Predictions and reveals, until it is stopped."""

    def __init__(self, journal: JetStreamJournal) -> None:
        self._journal = journal
        self._tasks: list[asyncio.Task[None]] = []
        self.revealed = 0

    async def start(self) -> None:
        now = time.time_ns() // 1000
        births = (self._journal.append(ModelCreated(f"m{i}", now, {})) for i in range(MODELS))
        self._lives = [birth.seq for birth in await asyncio.gather(*births)]
        numbers = count()
        self._tasks = [asyncio.create_task(self._client(numbers)) for _ in range(IN_FLIGHT)]
        self._tasks.append(asyncio.create_task(self._summarise()))

    async def _client(self, numbers: "count[int]") -> None:
        for number in numbers:
            model, made = f"m{number % MODELS}", os.urandom(16).hex()
            life = self._lives[number % MODELS]
            at = time.time_ns() // 1000
            self._journal.put_pending(Prediction(made, model, at, FEATURES, 1, 0.5, 1, 1), life, wait=False)
            reveal = RoundRevealed(model, at + 1, made, 1, at, FEATURES, 1, 0.5, 1, 1)
            await self._journal.append(reveal, life)
            self.revealed += 1

    async def _summarise(self) -> None:
        """As an engine does."""
        while True:
            await asyncio.sleep(SUMMARISE_SECONDS)
            now = time.time_ns() // 1000
            await self._journal.save_summaries(
                [Summary(f"m{i}", life, now, 1, 0, 0, 0, 0) for i, life in enumerate(self._lives)]
            )

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def seconds_to_start(url: str, replicas: int) -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.cluster", "--start", url, "--servers", str(replicas),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await process.communicate()
    return float(told)


def sizes(server: NatsServer) -> dict[str, tuple[int, int]]:
    """Messages and bytes of each stream."""
    told = server.ask("jsz?streams=1&accounts=1")["account_details"][0]["stream_detail"]
    return {one["name"]: (one["state"]["messages"], one["state"]["bytes"]) for one in told}


def on_disk(directory: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


async def measure(servers: list[NatsServer], places: list[int]) -> None:
    url, replicas = ",".join(server.url for server in servers), len(servers)
    journal = journal_at(url, replicas)
    await journal.open(lambda seq, event: None)
    load = Load(journal)
    empty = servers[0].ask("varz")["mem"]
    began = time.monotonic()
    await load.start()
    print("| reveals | a second | start of a replica, seconds | MB on each disk | MB of a server's memory |")
    print("|---|---|---|---|---|")
    for place in places:
        while load.revealed < place:
            await asyncio.sleep(0.2)
        rate = load.revealed / (time.monotonic() - began)
        starts = ", ".join([f"{await seconds_to_start(url, replicas):.2f}" for _ in range(STARTS)])
        disk, memory = on_disk(servers[0].directory), servers[0].ask("varz")["mem"]
        print(
            f"| {load.revealed:,} | {rate:,.0f} | {starts} | {disk / 1e6:,.0f} | {memory / 1e6:,.0f} |",
            flush=True,
        )
    await load.stop()
    await journal.settle()
    for stream, (messages, size) in sizes(servers[0]).items():
        print(f"{stream}: {messages:,} messages, {size / max(messages, 1):,.0f} bytes each")
    events = load.revealed
    print(f"disk: {on_disk(servers[0].directory) / events:,.0f} bytes a round on each server")
    print(f"memory: {(servers[0].ask('varz')['mem'] - empty) / events:,.0f} bytes a round")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--reveals", default="50000,150000,1000000", help="after how many to start a replica")
    parser.add_argument("--start", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.start:
        asyncio.run(start_once(given.start, given.servers))
        return
    with tempfile.TemporaryDirectory() as directory:
        cluster = NatsCluster(Path(directory)) if given.servers == 3 else None
        servers = cluster.servers if cluster is not None else [NatsServer(Path(directory))]
        try:
            if cluster is not None:
                cluster.start()
            else:
                servers[0].start()
                servers[0].wait_until_healthy()
            asyncio.run(measure(servers, [int(place) for place in given.reveals.split(",")]))
        finally:
            for server in servers:
                server.kill()


if __name__ == "__main__":
    main()
