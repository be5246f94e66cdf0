"""What is right after corrections, voids and forgettings in everything that is made of the history of a model."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service_process import Service
from tests.support.waiting import eventually
from tests.web.routes.test_corrections import correct, rebuilt, substance, void
from tests.web.routes.test_warm_challengers import entered
from tests.web.routes.test_what_if import LEARNERS, replayed

pytestmark = pytest.mark.slow

Start = Callable[..., Service]

AROW = {"learner": {"algorithm": "arow"}}
EVERY_JOURNAL = pytest.mark.parametrize("journal", ["sqlite", "jetstream"], indirect=True)


def point(number: int) -> list[float]:
    chance = random.Random(number)
    return [round(chance.uniform(-1, 1), 3) for _ in range(3)]


def truth(number: int) -> int:
    x, y, z = point(number)
    return 1 if x + y * z > 0 else -1


def warm(service: Service, model: str) -> dict[str, Any]:
    (line,) = service.stats(model)["challengers"]["line"]
    found: dict[str, Any] = line["warm"]
    return found


@EVERY_JOURNAL
def test_a_round_that_a_warm_challenger_has_learned_may_be_voided(start: Start, journal: str) -> None:
    service = start()
    for model, rounds in (("m", range(6)), ("twin", (0, 1, 3, 4, 5))):
        for number in rounds:
            service.learn(model, point(number), truth(number), id=f"{model}-{number}", tag=f"t{number}")
        entered(service, model, "warm", **AROW)
        for number in range(6, 9):
            service.learn(model, point(number), truth(number))
    void(service, "m-2")
    rebuilt(service, "m")
    assert warm(service, "m")["missed"] == 0 and warm(service, "m")["rounds"] == 5
    assert service.stats("m")["mistakes"] == service.stats("twin")["mistakes"]
    for model in ("m", "twin"):
        service.post(f"/models/{model}/promote", {"challenger": "warm"})
    assert service.get("/models/m/weights")["classes"] == service.get("/models/twin/weights")["classes"]
    service.post("/models/m/forget", {"tag": "t4"})
    rebuilt(service, "m")
    service.restart()
    assert service.stats("m")["rounds"]["revealed"] == 7
    service.assert_replay_equals_live("m")


def test_what_ifs_compare_with_the_corrected_model(service: Service, name: str) -> None:
    for number in range(300):
        service.predict(name, [1.0 if number % 2 else -1.0, 0.5], id=f"{name}-{number}")
        right = 1 if number % 2 else -1
        service.reveal(f"{name}-{number}", -right if number % 5 == 0 else right)
    for number in range(0, 300, 5):
        correct(service, f"{name}-{number}", 1 if number % 2 else -1)
    rebuilt(service, name)
    result = replayed(service, name, settings={})
    assert result["live"]["mistakes"] == service.stats(name)["mistakes"] <= 10
    (found,) = result["settings"]
    assert (found["won"], found["lost"], found["mistakes"]) == (0, 0, result["live"]["mistakes"])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", LEARNERS)
def test_the_same_settings_give_the_corrected_model_to_the_bit(
    service: Service, name: str, kind: str, seed: int
) -> None:
    service.create(name, **LEARNERS[kind])
    chance, waiting, done = random.Random(seed), [], []
    for number in range(60):
        features: Any = point(number)
        if kind == "named":
            features = {f"f{at}": value for at, value in enumerate(features)}
        waiting.append(f"{name}-{number}")
        service.predict(name, features, id=waiting[-1], tag=f"tag-{number % 9}")
        while waiting and chance.random() < 0.7:
            done.append(waiting.pop(chance.randrange(len(waiting))))
            service.reveal(done[-1], chance.choice((truth(number), -1)))
        if number == 40:
            service.post(f"/models/{name}/forget", {"tag": "tag-3"})
            rebuilt(service, name)
    done = [each for each in done if int(each.rpartition("-")[2]) % 9 not in (3, 5)]
    void(service, done[2])
    correct(service, done[5], 1)
    correct(service, done[9], -1)
    service.predict(name, features, id=f"{name}-waits")
    void(service, f"{name}-waits")
    service.post(f"/models/{name}/forget", {"tag": "tag-5"})
    rebuilt(service, name)
    result = replayed(service, name, settings={}, **{"as": f"{name}-twin"})
    twin, model = (substance(service, each) for each in (f"{name}-twin", name))
    if model["asking"] is not None:  # a fork begins to count anew what was asked for
        twin["asking"], model["asking"] = (
            {part: asking[part] for part in ("b", "b_given", "eta", "key")}
            for asking in (twin["asking"], model["asking"])
        )
    assert twin == model
    assert result["live"]["mistakes"] == service.stats(name)["mistakes"]
    assert result["settings"][0]["lost"] == result["settings"][0]["won"] == 0


@pytest.mark.parametrize("forgets", [False, True])
def test_a_correction_takes_no_version_away(start: Start, forgets: bool) -> None:
    service = start(events_kept_max=100, snapshot_every_events=10)
    for number in range(300):
        service.learn("m", point(number), truth(number), id=f"m-{number}", tag=f"t{number}")
    if forgets:
        service.post("/models/m/forget", {"tag": "t215"})
    else:
        correct(service, "m-215", -truth(215))
    rebuilt(service, "m")
    for number in range(300, 330):
        service.learn("m", point(number), truth(number))
    service.restart()
    gone = service.client.get("/stats/m?at=0").json()
    assert gone["oldest_version"] <= 331 - 75, gone
    revealed = {
        version: service.get(f"/stats/m?at={version}")["rounds"]["revealed"]
        for version in range(gone["oldest_version"], 332, 7)
    }
    for version, rounds in revealed.items():
        assert rounds == version - (version >= 216 and forgets) - (version >= 301)
    assert service.post("/models/m/forget", {"tag": "t290"})["rounds"] == 1
    rebuilt(service, "m")
    assert service.stats("m")["rounds"]["revealed"] == 329 - forgets


@pytest.mark.parametrize("multiclass", ["one_vs_all", "one_vs_one", "multiclass"])
def test_a_correction_that_changes_the_order_of_classes_keeps_fits_and_warm_challengers(
    service: Service, name: str, multiclass: str
) -> None:
    learner = {"algorithm": "perceptron"} if multiclass == "multiclass" else {"algorithm": "arow"}
    service.create(name, labels=None, multiclass=multiclass, learner=learner)
    centres = {"a": [2.0, 0.0, 0.0], "b": [0.0, 2.0, 0.0], "c": [0.0, 0.0, 2.0]}
    service.learn(name, centres["a"], "b", id=f"{name}-first")
    for _ in range(3):
        for label, features in centres.items():
            service.learn(name, features, label)
    examples = [{"features": features, "label": label} for label, features in centres.items()]
    job = service.post(f"/models/{name}/fit", {"examples": examples, "algorithm": "online"})
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    assert service.get(f"/jobs/{job['id']}")["state"] == "done"
    entered(service, name, "warm", learner=learner)
    before = service.get(f"/models/{name}/weights")
    assert before["labels"] == ["b", "a", "c"]
    correct(service, f"{name}-first", "a")
    rebuilt(service, name)
    after = service.get(f"/models/{name}/weights")
    assert after["labels"] == ["a", "b", "c"]
    by_label = [{each["label"]: each["weights"] for each in told["classes"]} for told in (before, after)]
    assert by_label[0] == by_label[1]
    assert warm(service, name)["rounds"] == 10
    for label, features in centres.items():
        assert service.predict(name, features)["label"] == label
    service.assert_replay_equals_live(name)
