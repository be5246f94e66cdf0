"""`make soak`: mixed load for a while, with kills and restarts, and an account in the end.

Every round has an id, so it counts once however often it is sent; what was not answered is sent again after the
restart. In the end the rounds that were acknowledged and the rounds that are counted have to be the same. Beside
that, other models are deleted and made again all the time, under requests that come twice at once.

With `--kills 100` it goes on until there were so many kills, one right after the other.

With `--replicas 3` the same on three replicas over a cluster of three NATS servers: requests go to any of them, and
in the end all of them have to tell the same.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx
import msgspec

from tests.support.nats_servers import NatsCluster
from tests.support.service_process import NO_TLS, Service
from tests.support.short_lived_models import Mortals
from tests.support.transfer_client import move_models
from tests.support.waiting import eventually_async

CLIENTS = 12
MORTAL_CLIENTS = 3
MORTALS = [f"mortal-{number}" for number in range(4)]
MODELS = [f"soak-{number}" for number in range(8)]
REPORT_SECONDS = 10.0
BETWEEN_RESTARTS_SECONDS = (5.0, 15.0)
BETWEEN_KILLS_ROUNDS = (5, 150)
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass
class Account:
    acknowledged: Counter[str] = field(default_factory=Counter)
    """Rounds by model."""
    requests: Counter[str] = field(default_factory=Counter)
    """By kind of request, and by status if it was not 200."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """How long requests took since the last report."""
    restarts: Counter[str] = field(default_factory=Counter)


class Client:
    """Sends one request after another, each until it has a final answer."""

    def __init__(self, soak: "Soak", number: int) -> None:
        self._soak = soak
        self._chance = random.Random(number)
        self._ids = (f"{number}-{i}" for i in range(sys.maxsize))

    async def run(self) -> None:
        while not self._soak.over:
            kind = self._chance.choices(["round", "learn", "items", "stream", "stats"], [6, 4, 1, 1, 1])[0]
            await getattr(self, f"_{kind}")(self._chance.choice(MODELS))

    def _example(self) -> tuple[list[float], int]:
        features = [self._chance.uniform(-1, 1) for _ in range(8)]
        return features, 1 if sum(features) > 0 else -1

    async def _round(self, model: str) -> None:
        (features, label), identity = self._example(), next(self._ids)
        body = {"model": model, "features": features, "id": identity}
        while True:
            await self._send("predict", "/predict", body)
            answer = await self._send("feedback", "/feedback", {"prediction_id": identity, "label": label})
            if answer.status_code == 200:
                break  # else the prediction was lost in a kill before it was on disk: it is asked for again
            assert answer.status_code == 404, answer.text
        self._soak.account.acknowledged[model] += 1

    async def _learn(self, model: str) -> None:
        features, label = self._example()
        body = {"model": model, "features": features, "label": label, "id": next(self._ids)}
        await self._send("learn", "/learn", body)
        self._soak.account.acknowledged[model] += 1

    async def _items(self, model: str) -> None:
        examples = [(next(self._ids), *self._example()) for _ in range(10)]
        items = [{"model": model, "id": i, "features": x, "label": y} for i, x, y in examples]
        while True:
            answer = await self._send("items", "/learn", {"items": items})
            if all("rounds" in item for item in answer.json()["items"]):
                break
        self._soak.account.acknowledged[model] += len(items)

    async def _stream(self, model: str) -> None:
        examples = [(next(self._ids), *self._example()) for _ in range(50)]
        lines = [{"id": i, "features": features, "label": label} for i, features, label in examples]
        body = b"\n".join(map(msgspec.json.encode, lines))
        while True:
            answer = await self._send("stream", f"/stream?model={model}", body)
            told = [msgspec.json.decode(line) for line in answer.text.splitlines()]
            if len(told) == len(lines) and not any("error" in line for line in told):
                break
        self._soak.account.acknowledged[model] += len(lines)

    async def _stats(self, model: str) -> None:
        await self._send("stats", f"/stats/{model}", None)

    async def _send(self, kind: str, path: str, body: Any) -> httpx.Response:
        return await self._soak.send(kind, "GET" if body is None else "POST", path, body)


class Soak:
    def __init__(
        self, data: Path, minutes: float, kills: int | None, cluster: NatsCluster | None, replicas: int
    ) -> None:
        self.account = Account()
        self.over = False
        self._ends_at = time.monotonic() + 60 * minutes
        self._kills = kills
        settings = cluster.settings("soak") if cluster is not None else {}
        self._services = [
            Service(data, snapshot_every_events=200, models_loaded_max=5, pending_max=100_000, **settings)
            for _ in range(replicas)
        ]
        self._running: dict[int, httpx.AsyncClient] = {}
        """By their numbers, the services that can be asked."""
        self._chance = random.Random(1)

    async def send(self, kind: str, method: str, path: str, body: Any) -> httpx.Response:
        """An answer, however many restarts it takes, of any replica."""
        account = self.account
        while True:
            await eventually_async(lambda: bool(self._running))
            http = self._chance.choice(list(self._running.values()))
            began = time.perf_counter()
            try:
                if isinstance(body, bytes):
                    answer = await http.post(path, content=body, headers=NDJSON)
                else:
                    answer = await http.request(method, path, json=body)
            except (httpx.TransportError, RuntimeError):  # the latter if the client was closed meanwhile
                account.requests["cut off"] += 1
                await asyncio.sleep(0.01)
                continue
            account.requests[kind] += 1
            if answer.status_code != 200:
                account.requests[f"{kind} {answer.status_code}"] += 1
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            if answer.status_code != 503:
                account.seconds.setdefault(kind, []).append(time.perf_counter() - began)
                return answer
            await asyncio.sleep(0.05)

    async def _mortals(self, number: int) -> None:
        async def send(method: str, path: str, body: Any) -> httpx.Response:
            return await self.send("mortal", method, path, body)

        mortals = Mortals(send, number, MORTALS)
        while not self.over:
            await mortals.step()

    async def run(self) -> bool:
        """Whether the account balances."""
        try:
            await asyncio.gather(*(self._start(number) for number in range(len(self._services))))
            clients = [asyncio.create_task(Client(self, number).run()) for number in range(CLIENTS)]
            clients += [asyncio.create_task(self._mortals(number)) for number in range(MORTAL_CLIENTS)]
            reports = asyncio.create_task(self._report())
            clients.append(asyncio.create_task(move_models(self, MODELS[0])))
            while not self._is_time_to_end() and not any(client.done() for client in clients):
                await self._live_for_a_while(clients)
                await self._restart()
            self.over = True
            await asyncio.gather(*clients)
            reports.cancel()
            return await self._balances()
        except AssertionError:
            for service in self._services:
                print("".join(service.log[-60:]))
            raise
        finally:
            for service in self._services:
                service.close()

    async def _live_for_a_while(self, clients: list[asyncio.Task[None]]) -> None:
        """So many seconds or, if kills are counted, so many rounds."""
        if self._kills is None:
            seconds = self._chance.uniform(*BETWEEN_RESTARTS_SECONDS)
            await asyncio.wait(clients, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            return
        acknowledged = self.account.acknowledged
        enough = acknowledged.total() + self._chance.randint(*BETWEEN_KILLS_ROUNDS)
        while acknowledged.total() < enough and not any(client.done() for client in clients):
            await asyncio.sleep(self._chance.uniform(0.0, 0.01))

    def _is_time_to_end(self) -> bool:
        if self._kills is not None:
            return self.account.restarts["kill"] >= self._kills
        return time.monotonic() >= self._ends_at

    async def _start(self, number: int) -> None:
        service = self._services[number]
        await asyncio.to_thread(service.start, cold=True)
        self._running[number] = httpx.AsyncClient(base_url=service.url, timeout=60, verify=NO_TLS)

    async def _restart(self) -> None:
        how = self._chance.choice(["kill", "kill", "stop"] if self._kills is None else ["kill"])
        number = self._chance.randrange(len(self._services))
        self.account.restarts[how] += 1
        http = self._running.pop(number)
        if how == "kill":
            if self._kills is not None and self._chance.random() < 0.2:
                os.kill(self._services[number].writer_pid, signal.SIGKILL)  # which ends the service, too
            await asyncio.to_thread(self._services[number].kill)
        else:
            status = await asyncio.to_thread(self._services[number].stop)
            assert status == 0, "a stop must end with status 0"
        await http.aclose()
        await self._start(number)

    async def _report(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            seconds, self.account.seconds = self.account.seconds, {}
            p99 = {kind: quantiles(s, n=100)[98] * 1000 for kind, s in seconds.items() if len(s) > 1}
            rounds, restarts = self.account.acknowledged.total(), self.account.restarts.total()
            print(
                f"{time.monotonic() - began:6.0f} s  {self._megabytes():4.0f} MB  {rounds:9,} rounds"
                f"  {restarts:3} restarts  p99 ms:",
                ", ".join(f"{kind} {value:.0f}" for kind, value in sorted(p99.items())),
                flush=True,
            )

    def _megabytes(self) -> float:
        """Of the largest."""
        most = 0.0
        for number in self._running:
            with suppress(OSError):  # it may just have been killed
                status = Path(f"/proc/{self._services[number].process.pid}/status").read_text()
                lines = (line for line in status.splitlines() if line.startswith("VmRSS"))
                most = max(most, *(int(line.split()[1]) / 1024 for line in lines), 0.0)
        return most

    async def _balances(self) -> bool:
        balances = True
        for model, acknowledged in sorted(self.account.acknowledged.items()):
            told = []
            for service in self._services:  # a replica may be a little behind the others
                with suppress(AssertionError):
                    await eventually_async(lambda: _revealed(service, model) >= acknowledged)  # noqa: B023
                told.append(_revealed(service, model))
            balances &= set(told) == {acknowledged}
            print(f"{model}: {acknowledged:,} acknowledged, {', '.join(f'{one:,}' for one in told)} counted")
        print(
            "requests:", dict(sorted(self.account.requests.items())), "restarts:", dict(self.account.restarts)
        )
        print("the account balances" if balances else "THE ACCOUNT DOES NOT BALANCE")
        return balances


def _revealed(service: Service, model: str) -> int:
    return int(service.stats(model)["rounds"]["revealed"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--kills", type=int, help="end after so many kills, instead of minutes")
    options.add_argument(
        "--replicas", type=int, default=1, help="more than one: on a cluster of NATS servers"
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="novikoff-soak-") as directory:
        balances = asyncio.run(run(Path(directory), chosen.minutes, chosen.kills, chosen.replicas))
    sys.exit(0 if balances else 1)


async def run(directory: Path, minutes: float, kills: int | None, replicas: int) -> bool:
    cluster = NatsCluster(directory / "nats").start() if replicas > 1 else None
    try:
        return await Soak(directory / "data", minutes, kills, cluster, replicas).run()
    finally:
        if cluster is not None:
            cluster.close()


if __name__ == "__main__":
    main()
