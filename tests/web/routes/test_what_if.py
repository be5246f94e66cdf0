"""The history of a model through other settings: what would have come of it, without touching the model."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

EVERY_JOURNAL = pytest.mark.parametrize("journal", ["sqlite", "jetstream"], indirect=True)

LEARNERS: dict[str, dict[str, Any]] = {
    "perceptron": {},
    "arow": {"learner": {"algorithm": "arow"}, "features": {"standardize": True}},
    "auto": {"learner": {"algorithm": "auto"}},
    "sets": {"learner": {"algorithm": "pa1"}, "coverage": 0.9, "ask": "auto"},
    "classes": {"labels": None, "learner": {"algorithm": "scw"}},
    "named": {"features": "named", "learner": {"algorithm": "logistic"}},
}


SLOW = {"learner": {"algorithm": "arow", "covariance": "full"}, "features": {"fourier": {"features": 400}}}
MANY_ROUNDS = [
    {"features": [at % 13 - 6.0, 1.0, 0.5], "label": 1 if at % 13 > 6 else -1} for at in range(10_000)
]
"""With SLOW settings they take many minutes: a job that goes through them does not end by itself."""


def replayed(service: Service, model: str, **wanted: Any) -> dict[str, Any]:
    """The result of a replay that has to work."""
    job = service.post(f"/models/{model}/replay", wanted)
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    job = service.get(f"/jobs/{job['id']}")
    assert job["state"] == "done" and job["kind"] == "replay", job
    result: dict[str, Any] = job["result"]
    return result


def live_on(services: list[tuple[Service, str]], *, rounds: int = 120, named: bool = False) -> None:
    """The same rounds for each: whole ones, late ones, a block, a reset, a rollback, and some
    that are never revealed."""
    chance = random.Random(7)
    waiting: list[tuple[list[str], int]] = []
    for number in range(rounds):
        point = [chance.uniform(-1, 1) for _ in range(3)]
        features: Any = {f"f{place}": value for place, value in enumerate(point)} if named else point
        label = 1 if point[0] + point[1] * point[2] > 0 else -1
        if chance.random() < 0.4:
            for service, name in services:
                service.learn(name, features, label, weight=1.0 + number % 2)
        else:
            ids = [service.predict(name, features)["prediction_id"] for service, name in services]
            waiting.append((ids, label))
        while waiting and chance.random() < 0.5:
            ids, late = waiting.pop(chance.randrange(len(waiting)))
            for (service, _), prediction_id in zip(services, ids, strict=True):
                service.reveal(prediction_id, late)
        if number == rounds // 3:
            for service, name in services:
                lines = [{"features": features, "label": label} for _ in range(20)]
                assert all("mistake" in line for line in service.stream(lines, name)[:-1])
        if number == rounds // 2:
            waiting.clear()
            for service, name in services:
                service.post(f"/models/{name}/reset", {})
        if number == 4 * rounds // 5:
            waiting.clear()
            for service, name in services:
                service.post(f"/models/{name}/rollback", {"to": service.stats(name)["version"] - 7})


def state_of(service: Service, name: str) -> dict[str, Any]:
    export = service.get(f"/models/{name}/export")
    if export["asking"] is not None:  # an import begins to count what was asked for again
        export["asking"] = {part: export["asking"][part] for part in ("b", "b_given", "eta", "key")}
    return {
        key: value
        for key, value in export.items()
        if key not in ("name", "created_at", "updated_at", "digest")
    }


@over_journals("kind", LEARNERS, on_cluster=["auto"])
def test_the_same_settings_give_the_live_model_to_the_bit(service: Service, name: str, kind: str) -> None:
    service.create(name, **LEARNERS[kind])
    live_on([(service, name)], named=kind == "named")
    twin = f"{name}-twin"
    result = replayed(service, name, settings={}, **{"as": twin})
    assert state_of(service, twin) == state_of(service, name)
    (found,) = result["settings"]
    assert result["is_whole"] and found["mistakes"] == result["live"]["mistakes"] and found["won"] == 0
    assert (
        found["difference"] == 0.0 and found["evidence"] == 1.0 and found["curve"] == result["live"]["curve"]
    )
    service.learn(twin, {"f0": 1.0} if kind == "named" else [1.0, 2.0, 3.0], 1)
    service.assert_replay_equals_live(twin)
    assert state_of(service, twin) != state_of(service, name)


@over_journals("other", ["arow", "auto", "sets"], on_cluster=["sets"])
def test_other_settings_give_what_a_model_with_them_has_come_to(
    service: Service, name: str, other: str
) -> None:
    """Late labels count against what it would have served then, and not against what it would serve now."""
    rival, twin = f"{name}-rival", f"{name}-twin"
    service.create(name)
    service.create(rival, **LEARNERS[other])
    live_on([(service, name), (service, rival)])
    result = replayed(service, name, settings=LEARNERS[other], **{"as": twin})
    assert (
        service.get(f"/models/{twin}/weights")["classes"]
        == service.get(f"/models/{rival}/weights")["classes"]
    )
    stats, rivals = service.stats(twin), service.stats(rival)
    for figure in ("rounds", "mistakes", "error_rate", "confusion"):
        assert stats[figure] == rivals[figure], figure
    assert result["settings"][0]["curve"][-1]["round"] == result["live"]["rounds"]


def test_several_are_ranked_beside_the_live_model_which_is_not_touched(service: Service, name: str) -> None:
    service.create(name)
    chance = random.Random(3)
    for _ in range(300):
        x, y = chance.uniform(-1, 1), chance.uniform(-1, 1)
        service.learn(name, [x, y], 1 if x * y > 0 else -1)
    before = service.get(f"/models/{name}/export")
    grid = [{}, {"learner": {"algorithm": "arow"}, "features": {"fourier": {"gamma": 1.0}}}]
    result = replayed(service, name, grid=grid)
    best, same = result["settings"]
    assert (best["place"], same["place"]) == (1, 0) and best["mistakes"] < same["mistakes"]
    assert best["difference"] < 0 and best["difference_interval"]["low"] <= best["difference"]
    assert best["won"] - best["lost"] == same["mistakes"] - best["mistakes"] and best["evidence"] > 1
    assert service.get(f"/models/{name}/export") == before


@EVERY_JOURNAL
def test_a_model_that_began_as_another_is_replayed_from_there(service: Service, name: str) -> None:
    """An import or a fork brings its dimension and what it knew; no event tells of them."""
    fork = f"{name}-fork"
    service.create(name)
    live_on([(service, name)], rounds=30)
    service.post(f"/models/{name}/fork", {"as": fork})
    version = service.stats(fork)["version"]
    for number in range(10):
        service.learn(fork, [1.0, number % 3 - 1.0, 0.5], 1 if number % 2 else -1)
    result = replayed(service, fork, settings={"learner": {"algorithm": "pa1"}}, **{"as": f"{name}-twin"})
    assert not result["is_whole"] and result["from_version"] == version
    assert result["live"]["rounds"] == result["settings"][0]["rounds"] == 10
    assert service.stats(f"{name}-twin")["version"] == version + 10


def test_the_same_settings_take_its_fits_also_beside_challengers(service: Service, name: str) -> None:
    service.create(name, challengers={"arow": {"learner": {"algorithm": "arow"}}})
    live_on([(service, name)], rounds=30)
    examples = [{"features": [x, 1.0, 0.0], "label": 1 if x > 0 else -1} for x in (1.0, -2.0, 3.0)]
    job = service.post(f"/models/{name}/fit", {"examples": examples})
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] == "done")
    live_on([(service, name)], rounds=12)
    result = replayed(service, name, settings={}, **{"as": f"{name}-twin"})
    assert result["settings"][0]["curve"] == result["live"]["curve"]
    assert service.weights(f"{name}-twin") == service.weights(name)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({}, "settings"),
        ({"settings": {}, "grid": [{}]}, "settings"),
        ({"grid": []}, "grid"),
        ({"grid": [{}] * 33}, "grid"),
        ({"grid": [{}, {"learner": {"algorithm": "pa1", "C": -1}}]}, "grid[1].learner.C"),
        ({"settings": {"learner": {"algorithm": "none"}}}, "settings.learner.algorithm"),
        ({"settings": {"labels": ["a", "b"]}}, "settings.labels"),
        ({"settings": {"features": "named"}}, "settings.features.kind"),
        ({"settings": {"features": {"dimension": 7}}}, "settings.features.dimension"),
        ({"settings": {}, "as": "no spaces"}, "as"),
        ({"settings": {}, "more": 1}, "more"),
    ],
)
def test_what_is_wrong_is_named(service: Service, name: str, wanted: dict[str, Any], field: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    answer = service.client.post(f"/models/{name}/replay", json=wanted)
    assert answer.status_code == 422, answer.text
    assert field in {error["field"] for error in answer.json()["errors"]}, answer.text


def test_a_name_that_is_taken_and_a_model_that_is_not_there(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    taken = service.client.post(f"/models/{name}/replay", json={"settings": {}, "as": name})
    assert problem_of(taken) == (409, "model-exists")
    unknown = service.client.post("/models/never-made/replay", json={"settings": {}})
    assert problem_of(unknown) == (404, "unknown-model")


@EVERY_JOURNAL
def test_a_killed_service_has_the_model_and_its_counts_and_says_that_the_job_is_gone(
    start: Callable[..., Service],
) -> None:
    service = start()
    live_on([(service, "m")])
    service.stream(MANY_ROUNDS, "m")
    before = service.get("/models/m/export")
    job = service.post("/models/m/replay", {"grid": [SLOW] * 32, "as": "twin"})
    assert service.refused("/models/m/replay", {"settings": {}}) == (409, "job-running")
    service.kill()
    service.start()
    assert problem_of(service.client.get(f"/jobs/{job['id']}")) == (404, "unknown-job")
    assert service.get("/models/m/export") == before
    assert problem_of(service.client.get("/models/twin")) == (404, "unknown-model")


def test_a_job_may_be_cancelled_and_the_next_one_be_started(service: Service, name: str) -> None:
    live_on([(service, name)])
    service.stream(MANY_ROUNDS, name)
    job = service.post(f"/models/{name}/replay", {"grid": [SLOW] * 32})
    assert service.client.delete(f"/jobs/{job['id']}").json()["state"] == "cancelled"
    assert replayed(service, name, settings={})["live"]["rounds"] > 0
