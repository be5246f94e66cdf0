"""python -m bench.journals: appends to a cluster of three NATS servers beside appends to SQLite, and failover.

An append is a reveal with 512 bytes of features, and is over when the journal has applied it. Servers, client and
measurement share one machine, so the cluster's figures are what it does on that, not what it can do.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from service.events import ModelCreated, RoundRevealed
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.connecting import Access
from service.journal.jetstream.streams import Options
from service.journal.protocol import Journal
from service.journal.sqlite.journal import SqliteJournal
from tests.support.nats_servers import NatsCluster

FLIGHTS = {1: 1_000, 50: 10_000, 500: 20_000}
"""How many are under way at a time, and how many appends that is measured with."""

KILLS = 5
KEPT = 10**9
FEATURES = os.urandom(512)


def reveal(at: int) -> RoundRevealed:
    return RoundRevealed("m", at, os.urandom(16).hex(), 1, 1, FEATURES, 1, 0.5, 1, 1)


async def measure(journal: Journal, in_flight: int, total: int) -> str:
    await journal.open(lambda seq, event: None)
    life = (await journal.append(ModelCreated("m", 1, {}))).seq
    seconds: list[float] = []

    async def client() -> None:
        while len(seconds) < total:
            began = time.perf_counter()
            await journal.append(reveal(2), life)
            seconds.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(in_flight)))
    rate = len(seconds) / (time.perf_counter() - began)
    began = time.perf_counter()
    events = await journal.events("m", after=0, limit=-1)
    replay = len(events) / (time.perf_counter() - began)
    await journal.close()
    seconds.sort()
    p50, p99 = (seconds[int(len(seconds) * q)] * 1e3 for q in (0.5, 0.99))
    return f"{rate:,.0f} | {p50:.1f} | {p99:.1f} | {replay:,.0f}"


async def failover(journal: JetStreamJournal, cluster: NatsCluster, stream: str) -> list[float]:
    """How long appends stopped, for each kill of the stream's leader."""
    await journal.open(lambda seq, event: None)
    life = (await journal.append(ModelCreated("m", 1, {}))).seq
    done = [time.monotonic()]
    stopping = False

    async def client() -> None:
        while not stopping:
            await journal.append(reveal(2), life)
            done.append(time.monotonic())

    clients = [asyncio.create_task(client()) for _ in range(50)]
    gaps: list[float] = []
    for _ in range(KILLS):
        await asyncio.sleep(2)
        leader = await asyncio.to_thread(cluster.leader_of, stream)
        assert leader is not None
        killed = time.monotonic()
        leader.kill()
        while done[-1] < killed + 1 or time.monotonic() - killed < 3:
            await asyncio.sleep(0.05)
        recent = [at for at in done if at > killed - 1]
        gaps.append(max(after - before for before, after in pairwise(recent)))
        await asyncio.to_thread(leader.start)
        await asyncio.to_thread(leader.wait_until_healthy)
    stopping = True
    await asyncio.gather(*clients)
    await journal.close()
    return gaps


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        cluster = NatsCluster(Path(directory) / "nats").start()

        def on_cluster(prefix: str) -> JetStreamJournal:
            access = Access(tuple(cluster.url.split(",")))
            monitors = tuple(cluster.monitors.split(","))
            return JetStreamJournal(Options(access, prefix, 3, monitors, 60.0, 20_000, KEPT, 3600, 3600))

        def in_file(name: str) -> SqliteJournal:
            return SqliteJournal(
                Path(directory) / name,
                durability="power",
                queue_events_max=20_000,
                events_kept_max=KEPT,
                expired_remembered_max=10,
            )

        makers: dict[str, Callable[[str], Journal]] = {"three NATS servers": on_cluster, "SQLite": in_file}
        try:
            print(
                "| journal | in flight | appends/s | p50 ms | p99 ms | events read/s |\n|---|---|---|---|---|---|"
            )
            for in_flight, total in FLIGHTS.items():
                for name, make in makers.items():
                    print(
                        f"| {name} | {in_flight} | {asyncio.run(measure(make(f'b{in_flight}'), in_flight, total))} |"
                    )
            if "--failover" in sys.argv:
                gaps = asyncio.run(failover(on_cluster("f"), cluster, "f-log"))
                print("leader killed, seconds without an append:", ", ".join(f"{gap:.1f}" for gap in gaps))
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
