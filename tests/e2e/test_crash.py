"""kill -9 at random moments under load: nothing acknowledged is lost, nothing is counted twice."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS

KILLS = 8
"""`make soak ARGS="--kills 100"` goes on for longer."""
CLIENTS = 8
MODELS = ["a", "b", "c"]


@dataclass
class Account:
    """What the clients sent and what they were promised."""

    revealed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers to reveals, by prediction id."""
    learned: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers to whole rounds, by id."""
    unanswered: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Requests whose answers were cut off: they count once or not at all until they are sent again."""


async def client(http: httpx.AsyncClient, account: Account, chance: random.Random) -> None:
    """Send rounds until the connection breaks."""
    while True:
        model = chance.choice(MODELS)
        features = [chance.uniform(-1, 1) for _ in range(4)]
        label = 1 if sum(features) > 0 else -1
        if chance.random() < 0.3:
            key = f"whole-{chance.getrandbits(60)}"
            body: dict[str, Any] = {"model": model, "features": features, "label": label, "id": key}
            path, answers = "/learn", account.learned
        else:
            try:
                served = await http.post("/predict", json={"model": model, "features": features})
            except httpx.TransportError:
                return
            key = served.json()["prediction_id"]
            body = {"prediction_id": key, "label": label}
            path, answers = "/feedback", account.revealed
        try:
            answer = await http.post(path, json=body)
        except httpx.TransportError:
            account.unanswered.append((path, body))
            return
        assert answer.status_code == 200, answer.text
        answers[key] = answer.json()


async def load_until_killed(service: Service, account: Account, chance: random.Random) -> None:
    """Kill the service a random moment after a random number of rounds were acknowledged."""
    enough = len(account.revealed) + len(account.learned) + chance.randrange(5, 120)
    async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
        clients = [
            asyncio.create_task(client(http, account, random.Random(chance.random()))) for _ in range(CLIENTS)
        ]
        while len(account.revealed) + len(account.learned) < enough:
            await asyncio.wait(clients, timeout=chance.uniform(0.001, 0.01))
        service.process.kill()
        await asyncio.gather(*clients)


def test_kills_lose_nothing_and_count_nothing_twice(start: Callable[..., Service]) -> None:
    chance = random.Random(20)
    account = Account()
    # Small intervals, so that kills fall into snapshots and trims too.
    service = start(snapshot_every_events=25, models_loaded_max=2)
    for _ in range(KILLS):
        before = len(account.revealed) + len(account.learned)
        asyncio.run(load_until_killed(service, account, chance))
        service.kill()
        service.start()
        print(len(account.revealed) + len(account.learned) - before, "rounds acknowledged before the kill")
        for path, body in account.unanswered:
            answer = service.client.post(path, json=body)
            # A prediction that was not yet on disk when the service died is unknown, and so was its reveal.
            assert answer.status_code == 200 or (path == "/feedback" and answer.status_code == 404), (
                answer.text
            )
            if answer.status_code == 200:
                answers = account.revealed if path == "/feedback" else account.learned
                answers[answer.json()["prediction_id"]] = answer.json()
        account.unanswered.clear()

    assert len(account.revealed) > 30 and len(account.learned) > 30
    total = sum(service.stats(model)["rounds"]["revealed"] for model in MODELS)
    assert total == len(account.revealed) + len(account.learned)
    rounds_seen: dict[str, set[int]] = {model: set() for model in MODELS}
    for answer in (*account.revealed.values(), *account.learned.values()):
        assert answer["rounds"] not in rounds_seen[answer["model"]], "two answers claim the same round"
        rounds_seen[answer["model"]].add(answer["rounds"])
    for model in MODELS:
        service.assert_replay_equals_live(model)
    for prediction_id, answer in list(account.revealed.items())[::7]:
        again = service.client.post(
            "/feedback", json={"prediction_id": prediction_id, "label": answer["label"]}
        )
        assert again.json() == answer and again.headers["idempotent-replay"] == "true"
