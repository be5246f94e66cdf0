"""Three replicas on three servers, servers and replicas killed at random under load: nothing acknowledged is
lost, nothing counts twice, and all replicas come to the bits that a fold of the log gives.

CHAOS_SECONDS in the environment makes it longer; so does a machine on which less happens in that time.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.nats_servers import NatsCluster, NatsServer
from tests.support.replicas import Replica
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

SECONDS = float(os.environ.get("CHAOS_SECONDS", "12"))
ROUNDS_MIN = int(3 * SECONDS)
"""So many at least: under elections, but under load too."""
KILLS_MIN = max(2, int(SECONDS / 6))
"""Of servers, and of replicas."""
CLIENTS = 8
MODELS = ["a", "b", "c"]
ANSWER_SECONDS = PATIENCE_SECONDS
"""How long a client repeats a request until it is answered."""

UNDER_WAY_SECONDS = 30.0
"""How long it hopes for a prediction that no replica knows. One that lives hands it over sooner than that."""


@dataclass
class Account:
    """What the clients were promised."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What came of each round, by its id."""
    lost_predictions: int = 0
    """Served by a replica that died before the cluster had them."""
    refused: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0


class Client:
    """Sends rounds to whichever replica it likes; what is not answered it sends again, elsewhere."""

    def __init__(self, replicas: list[Service], account: Account, chance: random.Random) -> None:
        self._replicas = replicas
        self._account = account
        self._chance = chance

    async def run(self, http: httpx.AsyncClient, is_over: Callable[[], bool]) -> None:
        chance = self._chance
        while not is_over():
            model = chance.choice(MODELS)
            features = [chance.uniform(-1, 1) for _ in range(4)]
            label = 1 if sum(features) > 0 else -1
            if chance.random() < 0.4:
                key = f"whole-{chance.getrandbits(60):x}"
                whole = {"model": model, "features": features, "label": label, "id": key}
                self._account.answers[key] = (await self._send(http, "/learn", whole)).json()
                continue
            served = await self._send(http, "/predict", {"model": model, "features": features})
            key = served.json()["prediction_id"]
            answer = await self._send(http, "/feedback", {"prediction_id": key, "label": label})
            if answer.status_code == 503:
                self._account.lost_predictions += 1
            else:
                self._account.answers[key] = answer.json()

    async def _send(self, http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
        began = time.monotonic()
        while True:
            replica = self._chance.choice(self._replicas)
            try:
                answer = await http.post(replica.url + path, json=body)
                if answer.status_code == 200 or _is_lost(answer, time.monotonic() - began):
                    self._account.slowest_seconds = max(
                        self._account.slowest_seconds, time.monotonic() - began
                    )
                    return answer
                assert answer.status_code == 503, answer.text
                self._account.refused[answer.json()["code"]] += 1
            except httpx.TransportError as error:
                self._account.refused[type(error).__name__] += 1
            assert time.monotonic() - began < ANSWER_SECONDS, f"{path} was not answered"
            await asyncio.sleep(0.05)


def _is_lost(answer: httpx.Response, seconds: float) -> bool:
    is_under_way = answer.status_code == 503 and answer.json()["code"] == "prediction-under-way"
    return is_under_way and seconds > UNDER_WAY_SECONDS


class Killer:
    """Kills a server or a replica now and then and starts it again; never two servers at once."""

    def __init__(self, cluster: NatsCluster, replicas: list[Service], chance: random.Random) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._chance = chance
        self.kills: Counter[str] = Counter()

    async def run(self, is_over: Callable[[], bool]) -> None:
        await asyncio.gather(self._kill_servers(is_over), self._kill_replicas(is_over))

    async def _kill_servers(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            await asyncio.sleep(self._chance.uniform(1.0, 6.0))  # an election takes about as long
            leader = await asyncio.to_thread(self._cluster.leader_of, "chaos-log")
            server = (
                leader
                if leader and self._chance.random() < 0.6
                else self._chance.choice(self._cluster.servers)
            )
            await asyncio.to_thread(self._restart_server, server)
            self.kills["server"] += 1
            self.kills["leader"] += server is leader

    def _restart_server(self, server: NatsServer) -> None:
        server.kill()
        time.sleep(self._chance.uniform(0.1, 2.0))  # how long it is away
        server.start()
        server.wait_until_healthy()

    async def _kill_replicas(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            await asyncio.sleep(self._chance.uniform(1.0, 4.0))
            replica = self._chance.choice(self._replicas)
            await asyncio.to_thread(replica.kill)
            await asyncio.to_thread(start_again, replica)
            self.kills["replica"] += 1


def start_again(replica: Service) -> None:
    """As often as it takes: one that finds no server in its first seconds ends."""

    def is_running() -> bool:
        replica.start()
        return True

    eventually(is_running, not_yet=AssertionError)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    cluster = NatsCluster(tmp_path / "cluster").start()
    yield cluster
    cluster.close()


@pytest.mark.timeout(SECONDS + 300)
def test_random_kills_lose_nothing_and_count_nothing_twice(cluster: NatsCluster, tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "8")))
    settings = cluster.settings("chaos")
    # Small intervals, so that kills fall into snapshots too, and models are loaded again and again.
    replicas: list[Service] = [
        Replica(tmp_path, snapshot_every_events=25, models_loaded_max=2, **settings) for _ in range(3)
    ]
    for replica in replicas:
        replica.start()
    try:
        account = Account()
        killer = Killer(cluster, replicas, chance)
        asyncio.run(under_fire(replicas, account, killer, chance))
        print(len(account.answers), "rounds, slowest", round(account.slowest_seconds, 1), "s")
        print(dict(killer.kills), dict(account.refused), account.lost_predictions, "predictions lost")
        assert_consistent(replicas, account)
    finally:
        for replica in replicas:
            replica.close()


async def under_fire(
    replicas: list[Service], account: Account, killer: Killer, chance: random.Random
) -> None:
    until = time.monotonic() + SECONDS

    def is_over() -> bool:
        killed = min(killer.kills["server"], killer.kills["replica"])
        return time.monotonic() > until and killed >= KILLS_MIN and len(account.answers) >= ROUNDS_MIN

    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
        clients = [Client(replicas, account, random.Random(chance.random())) for _ in range(CLIENTS)]
        await asyncio.gather(killer.run(is_over), *(client.run(http, is_over) for client in clients))


def assert_consistent(replicas: list[Service], account: Account) -> None:
    rounds: dict[str, list[int]] = {model: [] for model in MODELS}
    for answer in account.answers.values():
        rounds[answer["model"]].append(answer["rounds"])
    for model in MODELS:
        count = len(rounds[model])
        assert sorted(rounds[model]) == list(range(1, count + 1)), "every round was acknowledged, once"
        for replica in replicas:
            replica.predict(model, [0.0] * 4, min_version=count)
            assert replica.stats(model)["rounds"]["revealed"] == count
            replica.assert_replay_equals_live(model)
        weights = [replica.get(f"/models/{model}/weights") for replica in replicas]
        assert all(one == weights[0] for one in weights)
    again = Client(replicas, account, random.Random(1))
    asyncio.run(assert_first_answers_again(again, account))


async def assert_first_answers_again(client: Client, account: Account) -> None:
    """A sample of the rounds, sent again: the first answers come back."""
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
        for key, answer in list(account.answers.items())[:: max(1, len(account.answers) // 50)]:
            if not key.startswith("whole-"):
                body = {"prediction_id": key, "label": answer["label"]}
                again = await client._send(http, "/feedback", body)
                assert again.json() == answer and again.headers["idempotent-replay"] == "true"
