"""Models that are not in memory: retries, expiry and limits treat their predictions like any others."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

OVER_EVERY_JOURNAL = True


def unload(service: Service, *others: str) -> None:
    """Use other models until there is no room left for the rest."""
    for other in others:
        service.learn(other, [1.0], 1)


async def post_at_once(service: Service, path: str, bodies: list[dict[str, object]]) -> list[httpx.Response]:
    async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
        return list(await asyncio.gather(*(http.post(path, json=body) for body in bodies)))


@pytest.mark.parametrize("copies", [2, 5])
def test_equal_reveals_at_once_are_one_reveal(start: Callable[..., Service], copies: int) -> None:
    service = start(models_loaded_max=1)
    for number in range(20):
        model = f"m{number}"
        served = service.predict(model, [1.0, 2.0])
        unload(service, "other")
        body = {"prediction_id": served["prediction_id"], "label": -1}
        answers = asyncio.run(post_at_once(service, "/feedback", [body] * copies))
        assert [answer.status_code for answer in answers] == [200] * copies, "".join(service.log[-40:])
        assert len({answer.content for answer in answers}) == 1
        replayed = Counter("idempotent-replay" in answer.headers for answer in answers)
        assert replayed == {False: 1, True: copies - 1}
        assert service.stats(model)["rounds"]["revealed"] == 1
    assert service.stop() == 0


def test_different_labels_at_once_are_one_reveal_and_a_conflict(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=1)
    for number in range(10):
        served = service.predict(f"m{number}", [1.0, 2.0])
        unload(service, "other")
        bodies = [{"prediction_id": served["prediction_id"], "label": label} for label in (-1, 1)]
        answers = asyncio.run(post_at_once(service, "/feedback", bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert service.stats(f"m{number}")["rounds"]["revealed"] == 1


def test_one_id_for_two_examples_at_once_is_given_to_one_of_them(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=1)
    for number in range(10):
        a, b = f"a{number}", f"b{number}"
        service.learn(a, [1.0], 1)
        service.learn(b, [1.0], 1)
        unload(service, "other")
        bodies = [{"model": model, "features": [2.0], "id": f"id{number}"} for model in (a, b)]
        answers = asyncio.run(post_at_once(service, "/predict", bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        (served,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert service.reveal(f"id{number}", 1)["model"] == served["model"]


def test_predictions_of_unloaded_models_expire_and_make_room(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=5, pending_total_max=60, pending_ttl_seconds=2)
    served = [service.predict(f"dead{number}", [1.0])["prediction_id"] for number in range(60)]

    def all_expired() -> bool:
        rounds = service.get("/stats?limit=1")["totals"]["rounds"]
        return (rounds["pending"], rounds["expired"]) == (0, 60)

    eventually(all_expired, otherwise="they still wait")
    for number in range(60):
        service.predict(f"new{number}", [1.0])
    refused = service.client.post("/feedback", json={"prediction_id": served[0], "label": 1})
    assert problem_of(refused) == (410, "prediction-expired")
    assert service.stats("dead0")["rounds"] == {"predicted": 1, "revealed": 0, "pending": 0, "expired": 1}


def test_dead_predictions_of_unloaded_models_expire_after_a_restart_too(
    start: Callable[..., Service], journal: str
) -> None:
    settings = {"models_loaded_max": 3, "pending_total_max": 30, "pending_ttl_seconds": 2.5}
    service = start(**settings)
    began = time.monotonic()
    for number in range(15):
        service.predict(f"dead{number}", [1.0])
    eventually(lambda: time.monotonic() > began + 1.0)  # so that no single sweep finds all of them
    for number in range(15, 30):
        service.predict(f"dead{number}", [1.0])
    if journal == "sqlite":
        service.get("/stats")  # which waits until all of it is on disk
        service.kill()
        service.start()
    else:  # what a replica has served and was killed with is not counted, but its ids are forgotten in time
        service.restart()
    eventually(lambda: service.get("/stats?limit=1")["totals"]["rounds"]["pending"] == 0)
    assert service.stats("dead7")["rounds"]["expired"] == 1


def test_a_full_house_makes_room_by_the_oldest_of_all(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=5, pending_total_max=200)
    served = [service.predict(f"user{number}", [1.0])["prediction_id"] for number in range(230)]
    rounds = service.get("/stats?limit=1")["totals"]["rounds"]
    assert rounds["pending"] <= 200 and rounds["predicted"] == 230
    assert (
        problem_of(service.client.post("/feedback", json={"prediction_id": served[0], "label": 1}))[0] == 410
    )
    assert service.reveal(served[-1], 1)["rounds"] == 1
