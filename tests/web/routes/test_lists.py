"""Lists of all models while they come and go."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True


@pytest.mark.thorough
def test_lists_are_answered_while_models_are_deleted_and_made_again(start: Callable[..., Service]) -> None:
    """Also while most of them are not in memory, so that others are deleted while one is loaded."""
    service = start(models_loaded_max=3)
    names = [f"m{i:02}" for i in range(20)]
    for model in ("stays", *names):
        service.learn(model, [1.0], 1)
    paths = ["/stats", "/stats?sort=rounds&fields=rounds", "/models", "/metrics"]

    async def poll(client: httpx.AsyncClient, path: str, until: asyncio.Task[None]) -> int:
        asked = 0
        while not until.done():
            answer = await client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            if path != "/metrics":
                assert "stays" in [line["model"] for line in answer.json()["models"]]
                assert answer.json()["unreadable"] == []
            asked += 1
        return asked

    async def delete_and_make(client: httpx.AsyncClient, models: list[str]) -> None:
        for _ in range(4):
            for model in models:
                assert (await client.delete(f"/models/{model}")).status_code == 204
                body = {"model": model, "features": [1.0], "label": 1}
                assert (await client.post("/learn", json=body)).status_code == 200

    async def all_at_once() -> None:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            changes = asyncio.gather(*(delete_and_make(client, names[i::2]) for i in range(2)))
            changing = asyncio.ensure_future(_finished(changes))
            asked = await asyncio.gather(*(poll(client, path, changing) for path in paths))
            await changing
            assert all(asked), asked

    asyncio.run(all_at_once())
    assert [line["model"] for line in service.get("/stats")["models"]] == [*names, "stays"]


def test_models_are_sorted_by_their_recent_error_both_ways_also_when_they_are_not_in_memory(
    start: Callable[..., Service],
) -> None:
    """Two have erred equally often, one of them lately. One without rounds has no error and comes last."""
    service = start(models_loaded_max=1)
    errs = {"recent": "r" * 40 + "w" * 10, "once": "w" * 10 + "r" * 40, "seldom": "r" * 50, "never": ""}
    for model, course in errs.items():
        service.create(model, bias=False, tie=1)
        # Without features nothing is learned, and the tie is always served.
        lines = [{"features": [0.0], "label": 1 if letter == "r" else -1} for letter in course]
        service.stream(lines, model=model)

    def listed(query: str = "") -> list[str]:
        page = service.get(f"/stats?sort=ewma_error_rate&fields=ewma_error_rate{query}")
        rates = [line["ewma_error_rate"] for line in page["models"]]
        known = [rate for rate in rates if rate is not None]
        assert known == sorted(known, reverse="reverse" not in query)
        return [line["model"] for line in page["models"]]

    expected = ["recent", "once", "seldom", "never"]
    assert listed() == expected and listed("&reverse=true") == expected[::-1]
    assert service.stop() == 0
    service.start()
    assert listed() == expected
    second = service.get("/stats?sort=ewma_error_rate&limit=2")
    rest = service.get(f"/stats?sort=ewma_error_rate&limit=2&cursor={second['next']}")
    assert [line["model"] for line in rest["models"]] == expected[2:]


async def _finished(changes: Any) -> None:
    await changes
