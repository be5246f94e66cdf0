"""Many models at once, and hardly any may be loaded: each is answered all the same."""

import asyncio
from collections.abc import Callable

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

MODELS = 60
CLIENTS_A_MODEL = 3


async def rounds(service: Service, number: int) -> list[int]:
    """Rounds of one client, which shares its model with others; the statuses that it got."""
    model = f"m{number % MODELS}"
    statuses = []
    async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
        for i in range(3):
            served = await http.post("/predict", json={"model": model, "features": [1.0, float(i)]})
            body = {"prediction_id": served.json().get("prediction_id"), "label": 1}
            revealed = await http.post("/feedback", json=body)
            learned = await http.post("/learn", json={"model": model, "features": [1.0, 2.0], "label": -1})
            statuses += [served.status_code, revealed.status_code, learned.status_code]
        statuses.append((await http.get("/stats")).status_code)
    return statuses


def test_models_that_come_and_go_under_load_lose_nothing(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=1)

    async def all_at_once() -> list[list[int]]:
        return await asyncio.gather(*(rounds(service, n) for n in range(MODELS * CLIENTS_A_MODEL)))

    statuses = {status for client in asyncio.run(all_at_once()) for status in client}
    assert statuses == {200}, "".join(service.log[-60:])
    for number in range(0, MODELS, 7):
        assert service.stats(f"m{number}")["rounds"]["revealed"] == 6 * CLIENTS_A_MODEL
        service.assert_replay_equals_live(f"m{number}")
