"""A model that is deleted and made again is another one: what was meant for the first never reaches the second."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

OVER_EVERY_JOURNAL = True

FORMS = [
    {"features": {"kind": "dense", "dimension": 2}},
    {"features": {"kind": "dense", "dimension": 5}},
    {"features": "named"},
    {"features": {"kind": "dense", "dimension": 3}, "labels": ["a", "b", "c"]},
]


async def mixed_requests(service: Service, number: int, requests: int) -> set[int]:
    """Deletes, second lives of other shapes, and rounds of all shapes, without waiting for each other."""
    chance = random.Random(number)
    statuses: set[int] = set()
    async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:

        async def send(method: str, path: str, body: Any = None) -> httpx.Response:
            answer = await http.request(method, path, json=body)
            statuses.add(answer.status_code)
            return answer

        async def round_of(model: str, features: Any, label: Any) -> None:
            served = await send("POST", "/predict", {"model": model, "features": features})
            if served.status_code == 200:
                await send(
                    "POST", "/feedback", {"prediction_id": served.json()["prediction_id"], "label": label}
                )

        for _ in range(requests // 8):
            model = f"m{chance.randrange(2)}"
            features: Any = chance.choice([[1.0] * 2, [1.0] * 5, [1.0] * 3, {"x": 1.0}])
            label: Any = chance.choice([-1, 1, "a", "c"])
            batch = [
                send("DELETE", f"/models/{model}"),
                send("POST", "/models", {"model": model, **chance.choice(FORMS)}),
                *(
                    send("POST", "/learn", {"model": model, "features": features, "label": label})
                    for _ in range(2)
                ),
                round_of(model, features, label),
                send("POST", f"/models/{model}/reset"),
                send("GET", "/stats"),
            ]
            chance.shuffle(batch)
            await asyncio.gather(*batch)
    return statuses


def test_an_event_of_an_ended_life_never_reaches_the_next(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=1, snapshot_every_events=3)

    async def all_at_once() -> list[set[int]]:
        return await asyncio.gather(*(mixed_requests(service, number, 160) for number in range(8)))

    statuses = set().union(*asyncio.run(all_at_once()))
    assert statuses <= {200, 201, 204, 404, 409, 410, 422}, "".join(service.log[-60:])
    assert service.process.poll() is None, "".join(service.log[-60:])
    for _ in range(2):
        for model in ("m0", "m1"):
            service.client.post("/models", json={"model": model})
            service.assert_replay_equals_live(model)
        service.restart()
    for model in ("m0", "m1"):
        assert service.client.delete(f"/models/{model}").status_code == 204
