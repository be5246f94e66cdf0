"""Models that are deleted and made again, hardly any of them loaded, under retries that come at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.commands.running import worked
from tests.support.service_process import NO_TLS, Service
from tests.support.short_lived_models import Mortals
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

CLIENTS = 10
STEPS = 25
"""Of each; `make soak` goes on for as long as one likes."""
MODELS = [f"m{number}" for number in range(5)]
OVER_EVERY_JOURNAL = True


@pytest.mark.parametrize("wait", ["relaxed", "strict"])
def test_no_request_fails_and_the_journal_is_whole(
    start: Callable[..., Service], wait: str, journal: str
) -> None:
    service = start(models_loaded_max=2, snapshot_every_events=5, durability_of_predictions=wait)

    async def clients() -> None:
        limits = httpx.Limits(max_connections=4 * CLIENTS)
        async with httpx.AsyncClient(
            base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS, limits=limits
        ) as http:

            async def send(method: str, path: str, body: Any) -> httpx.Response:
                return await http.request(method, path, json=body)

            async def client(number: int) -> None:
                mortals = Mortals(send, number, MODELS)
                for _ in range(STEPS):
                    await mortals.step()

            await asyncio.gather(*(client(number) for number in range(CLIENTS)))

    try:
        asyncio.run(clients())
    except AssertionError:
        print("".join(service.log[-80:]))
        raise
    for model in MODELS:
        service.client.post("/models", json={"model": model})
    for _ in range(2):
        for model in MODELS:
            service.assert_replay_equals_live(model)
        service.restart()
    if journal == "sqlite":
        assert service.stop() == 0
        worked("doctor", "--data", str(service.data))
        service.start()
    for model in MODELS:
        assert service.client.delete(f"/models/{model}").status_code == 204
    assert service.get("/stats")["totals"]["rounds"]["predicted"] == 0
    assert service.stop() == 0
    assert not [line for line in service.log if "unexpected error" in line or "Traceback" in line]
