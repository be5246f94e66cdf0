"""Challengers that learn from the model's history before they enter, over either journal."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually
from tests.web.routes.test_what_if import LEARNERS, MANY_ROUNDS, live_on

pytestmark = pytest.mark.slow

EVERY_JOURNAL = pytest.mark.parametrize("journal", ["sqlite", "jetstream"], indirect=True)

SLOW = {"learner": {"algorithm": "arow", "covariance": "full"}, "features": {"fourier": {"features": 500}}}


def entered(service: Service, model: str, challenger: str, **settings: Any) -> dict[str, Any]:
    """The job that let a challenger enter, which has to work."""
    job = ended(service, model, challenger, **settings)
    assert job["state"] == "done" and job["kind"] == "challenger", f"{job}"
    return job


def ended(service: Service, model: str, challenger: str, **settings: Any) -> dict[str, Any]:
    body = {"name": challenger, "start": "history", **settings}
    answer = service.client.post(f"/models/{model}/challengers", json=body)
    assert answer.status_code == 202, answer.text
    path = answer.headers["location"]
    eventually(lambda: service.get(path)["state"] != "running")
    return service.get(path)


def line(service: Service, model: str, challenger: str) -> dict[str, Any]:
    (found,) = [one for one in service.stats(model)["challengers"]["line"] if one["name"] == challenger]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("journal", "kind"),
    [("sqlite", "auto"), ("sqlite", "named"), ("jetstream", "classes")],
    indirect=["journal"],
)
def test_it_is_what_a_model_with_its_settings_would_be_and_begins_without_evidence(
    service: Service, name: str, kind: str
) -> None:
    rival, settings = f"{name}-rival", LEARNERS[kind]
    own = {key: value for key, value in settings.items() if key in ("learner", "features")}
    shared = {key: value for key, value in settings.items() if key not in own}
    if own.get("features") == "named":
        shared["features"] = own.pop("features")
    service.create(name, **shared)
    service.create(rival, **settings)
    live_on([(service, name), (service, rival)], rounds=60, named=kind == "named")
    job = entered(service, name, "warm", **own)
    stats = service.stats(name)
    assert (job["version"], job["result"]["to_version"], job["result"]["missed"]) == (
        *[stats["version"]] * 2,
        0,
    )
    assert job["result"]["live"]["mistakes"] >= stats["mistakes"] and job["result"]["challenger"]["curve"]
    found = line(service, name, "warm")
    assert found["rounds"] == found["won"] == found["lost"] == 0 and found["evidence"] == 1.0
    assert found["warm"]["rounds"] == job["result"]["challenger"]["rounds"]
    assert found["warm"]["mistakes"] == job["result"]["challenger"]["mistakes"]
    more = {"f0": 1.0, "f1": 0.5, "f2": -0.2} if kind == "named" else [1.0, 0.5, -0.2]
    for model in (name, rival):
        service.learn(model, more, 1)
    assert line(service, name, "warm")["rounds"] == 1
    service.assert_replay_equals_live(name)
    service.post(f"/models/{name}/promote", {"challenger": "warm"})
    for weights in ("classes", "labels"):
        assert (
            service.get(f"/models/{name}/weights")[weights]
            == service.get(f"/models/{rival}/weights")[weights]
        )
    for model in (name, rival):
        service.learn(model, more, -1)
    served = [service.predict(model, more)["probability"] for model in (name, rival)]
    assert served[0] == served[1], "and as sure of itself"
    service.post(f"/models/{name}/promote", {"challenger": "original"})
    export = service.get(f"/models/{name}/export")
    assert service.client.put(f"/models/{name}-copy", json=export).status_code == 201
    service.assert_replay_equals_live(name)


@EVERY_JOURNAL
def test_it_survives_a_kill_and_the_trail_tells_of_it_without_its_weights(
    start: Callable[..., Service],
) -> None:
    service = start()
    live_on([(service, "m")], rounds=30)
    warm = entered(service, "m", "warm", learner={"algorithm": "arow"})["result"]
    trail = service.get("/models/m/events?limit=1000")["events"]
    (event,) = [event for event in trail if event["kind"] == "challenger_added"]
    assert event["warm"] == {
        "from_version": 0,
        "to_version": warm["to_version"],
        "rounds": warm["challenger"]["rounds"],
        "mistakes": warm["challenger"]["mistakes"],
    }
    assert "state" not in event
    before = service.get("/models/m/export")
    service.kill()
    service.start()
    assert service.get("/models/m/export") == before
    service.assert_replay_equals_live("m")


def test_labels_that_a_fit_or_an_older_past_brought_keep_their_order(service: Service, name: str) -> None:
    """The classes of all learners of a model are the same; those of a replay alone might come in another order."""
    service.create(name, labels=None)
    for number, label in enumerate(["a", "b", "c"]):
        service.learn(name, [1.0, float(number)], label)
    fork = f"{name}-fork"
    service.post(f"/models/{name}/fork", {"as": fork})
    examples = [{"features": [2.0, 9.0], "label": label} for label in "abcd"]
    for model, labels in ((name, ["e", "d", "b"]), (fork, ["c", "b", "a", "c"])):
        path = f"/jobs/{service.post(f'/models/{model}/fit', {'examples': examples})['id']}"
        eventually(lambda path=path: service.get(path)["state"] == "done")  # type: ignore[misc]
        for number, label in enumerate(labels):
            service.learn(model, [number - 2.0, 1.0], label)
        known = service.stats(model)["confusion"]["labels"]
        entered(service, model, "warm", learner={"algorithm": "pa1"})
        service.post(f"/models/{model}/promote", {"challenger": "warm"})
        assert service.get(f"/models/{model}/weights")["labels"] == known
        service.learn(model, [1.0, 2.0], labels[0])
        service.assert_replay_equals_live(model)


def test_rounds_that_come_meanwhile_are_caught_up_with(service: Service, name: str) -> None:
    """All rounds until the entry are learned or told as missed."""
    chance = random.Random(5)
    lines = []
    for _ in range(400):
        x, y = chance.uniform(-1, 1), chance.uniform(-1, 1)
        lines.append({"features": [x, y], "label": 1 if x > y else -1})
    service.create(name)
    service.stream(lines, name)
    job = service.post(
        f"/models/{name}/challengers",
        {"name": "warm", "start": "history", "learner": {"algorithm": "arow"}, "features": {"fourier": {}}},
    )
    for _ in range(5):
        service.stream(lines[:20], name)
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    job = service.get(f"/jobs/{job['id']}")
    assert job["state"] == "done", job
    service.stream(lines[:20], name)
    found, revealed = line(service, name, "warm"), service.stats(name)["rounds"]["revealed"]
    assert found["warm"]["rounds"] + found["warm"]["missed"] + found["rounds"] == revealed
    service.assert_replay_equals_live(name)


def test_what_is_wrong_is_refused_at_once_and_nothing_changes(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    service.post(f"/models/{name}/challengers", {"name": "there"})
    before = service.get(f"/models/{name}/export")
    path = f"/models/{name}/challengers"
    for body, field in (
        ({"name": "new", "start": "warm"}, "start"),
        ({"name": "new", "start": "history", "learner": {"algorithm": "pa1", "C": -1}}, "learner.C"),
        ({"name": "new", "start": "history", "features": "named"}, "features.kind"),
        ({"name": "original", "start": "history"}, "name"),
    ):
        answer = service.client.post(path, json=body)
        assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == field, answer.text
    assert service.refused(path, {"name": "there", "start": "history"}) == (409, "challenger-exists")
    assert service.refused("/models/never-made/challengers", {"name": "x", "start": "history"}) == (
        404,
        "unknown-model",
    )
    made = {"model": f"{name}-new", "challengers": {"x": {"start": "history"}}}
    assert service.refused("/models", made) == (422, "invalid-request")
    assert service.get(f"/models/{name}/export") == before


def test_a_job_may_be_cancelled_or_killed_and_the_model_is_as_it_was(start: Callable[..., Service]) -> None:
    service = start()
    live_on([(service, "m")], rounds=30)
    for _ in range(4):  # so that the job takes half a minute at least
        service.stream(MANY_ROUNDS, "m")
    before = service.get("/models/m/export")
    slow = {"name": "slow", "start": "history", **SLOW}
    job = service.post("/models/m/challengers", slow)
    assert service.refused("/models/m/replay", {"settings": {}}) == (409, "job-running")
    assert service.client.delete(f"/jobs/{job['id']}").json()["state"] == "cancelled"
    assert service.get("/models/m/export") == before
    job = service.post("/models/m/challengers", slow)
    service.kill()
    service.start()
    assert problem_of(service.client.get(f"/jobs/{job['id']}")) == (404, "unknown-job")
    assert service.get("/models/m/export") == before
