"""The curves of a model's learners through a running service, over either journal."""

from collections.abc import Callable
from typing import Any

from tests.support.service_process import Service, problem_of
from tests.web.routes.test_challengers import AROW, AUTO, rounds

OVER_EVERY_JOURNAL = True


def curves(service: Service, model: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.get(f"/stats/{model}?fields=learner_curves")["learner_curves"]
    return found


def test_the_curves_of_all_learners_are_told_if_they_are_asked_for(service: Service, name: str) -> None:
    service.create(name, challengers={"arow": AROW})
    service.stream(rounds(60), model=name)
    service.post(f"/models/{name}/challengers", {"name": "late", **AUTO})
    service.stream(rounds(40, seed=1), model=name)
    assert "learner_curves" not in service.stats(name)
    told = service.get(f"/stats/{name}?fields=learner_curves,challengers")
    champion, arow, late = told["learner_curves"]
    line = told["challengers"]["line"]
    assert [each["name"] for each in (champion, arow, late)] == ["original", "arow", "late"]
    assert [each["since_round"] for each in (champion, arow, late)] == [0, 0, 60]
    for curve, figures in zip((champion, arow, late), (told["challengers"]["champion"], *line), strict=True):
        assert curve["rounds"] == [*range(figures["rounds"] + 1)]
        assert (curve["mistakes"][0], curve["mistakes"][-1]) == (0, figures["mistakes"])
    assert champion["mistakes"] == service.stats(name)["curve"]["mistakes"]
    service.post(f"/models/{name}/promote", {"challenger": "late"})
    service.stream(rounds(10, seed=2), model=name)
    after = service.get(f"/stats/{name}?fields=learner_curves")
    assert [each["name"] for each in after["learner_curves"]] == ["late", "arow", "original"]
    assert after["learner_curves"][0]["mistakes"][:41] == late["mistakes"]
    assert after["learner_curves"][2]["mistakes"][:101] == champion["mistakes"]
    then = service.get(f"/stats/{name}?fields=learner_curves&at=100")
    assert then["learner_curves"] == told["learner_curves"]
    service.learn(f"{name}.plain", [1.0], 1)
    assert service.get(f"/stats/{name}.plain?fields=learner_curves") == {
        "model": f"{name}.plain",
        "learner_curves": None,
    }
    refused = service.client.get("/stats?fields=mistakes,learner_curves")
    assert problem_of(refused) == (422, "invalid-request")
    assert refused.json()["errors"][0]["message"] == "learner_curves: only for a single model"


def test_curves_survive_a_kill_and_being_unloaded_to_the_bit(start: Callable[..., Service]) -> None:
    settings = {"snapshot_every_events": 70, "models_loaded_max": 1}
    service = start(**settings)
    service.create("m", challengers={"arow": AROW, "same": {}})
    lines = rounds(700)
    service.stream(lines[:300], model="m")
    waiting = [(service.predict("m", line["features"]), line["label"]) for line in lines[300:320]]
    service.post("/models/m/promote", {"challenger": "arow"})
    for made, label in waiting:
        service.reveal(made["prediction_id"], label)
    before, export = curves(service, "m"), service.get("/models/m/export")
    assert [each["rounds"][-1] for each in before] == [320] * 3
    service.kill()
    service.start()
    assert (curves(service, "m"), service.get("/models/m/export")) == (before, export)
    service.learn("other", [1.0], 1)  # the only place in memory is its now
    assert (curves(service, "m"), service.get("/models/m/export")) == (before, export)
    service.stream(lines[320:], model="m")
    after = curves(service, "m")
    assert [each["rounds"][-1] for each in after] == [700] * 3
    assert all(len(each["rounds"]) <= 512 for each in after)
    assert [each["mistakes"][:161] for each in after] == [each["mistakes"][:321:2] for each in before]
    service.assert_replay_equals_live("m")
    assert service.client.put("/models/copy", json=export).status_code == 201
    assert curves(service, "copy") == before
