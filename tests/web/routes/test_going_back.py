"""Rollback and fork: a model becomes what it was, or another one begins there, and both go on from there."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of
from tests.support.version_records import Witness
from tests.support.waiting import eventually
from tests.web.routes.test_past import KINDS, streamed

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]

SHIFTED = ("version", "updated_at", "began_at", "digest", "created_at", "name", "model")
"""What differs between two worlds that are otherwise the same: names, times and counts of versions."""
OF_TIME = ("clock", "delay")
"""Statistics that know the times of events."""


def substance(export: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in export.items() if name not in SHIFTED}
    kept["statistics"] = {name: v for name, v in export["statistics"].items() if name not in OF_TIME}
    kept["statistics"]["curve"] = export["statistics"]["curve"][:4]  # then come its times
    return kept


def exported(service: Service, model: str, **query: Any) -> dict[str, Any]:
    return service.client.get(f"/models/{model}/export", params=query).json()


def rounds(count: int, seed: int = 0) -> list[tuple[list[float], int]]:
    return [
        ([float((i * 7 + seed) % 5) - 2.0, float((i * 3 + seed) % 4) - 1.5], 1 if (i + seed) % 3 else -1)
        for i in range(count)
    ]


def taught(service: Service, model: str, taken: list[tuple[list[float], int]]) -> list[dict[str, Any]]:
    answers = [service.learn(model, *each) for each in taken]
    return [
        {k: answer[k] for k in ("predicted", "score", "probability", "mistake", "rounds")}
        for answer in answers
    ]


@over_journals("kind", ["perceptron", "averaged-sets", "appearing-classes"], on_cluster=["averaged-sets"])
def test_a_rollback_is_what_was_there_and_can_be_rolled_back(start: Start, name: str, kind: str) -> None:
    service = start(snapshot_every_events=7)
    _, witness = streamed(service, name, kind, 30, seed=3)
    older = sorted(witness.seen)[len(witness.seen) // 3]
    before = witness.version
    told = service.post(f"/models/{name}/rollback", {"to": older})
    assert told["version"] == before + 1
    witness.look()
    assert substance(witness.seen[before + 1][2]) == substance(witness.seen[older][2])
    service.post(f"/models/{name}/rollback", {"to": before})
    witness.look()
    assert witness.version == before + 2
    assert substance(witness.seen[before + 2][2]) == substance(witness.seen[before][2])
    service.kill()
    service.start()
    assert exported(service, name) == witness.seen[before + 2][2]
    witness.assert_all_can_be_had_again(list(witness.seen)[-4:])


def test_a_rollback_then_the_same_events_give_the_same_again(service: Service, name: str) -> None:
    first, second = rounds(20), rounds(25, seed=1)
    taught(service, name, first)
    answers = taught(service, name, second)
    once = exported(service, name)
    taught(service, name, rounds(10, seed=2))
    service.post(f"/models/{name}/rollback", {"to": 20})
    assert taught(service, name, second) == answers
    assert substance(exported(service, name)) == substance(once)
    assert service.stats(name)["bound"] == service.get(f"/stats/{name}?at=45")["bound"]


def test_a_rollback_undoes_a_reset(service: Service, name: str) -> None:
    taught(service, name, rounds(12))
    before = exported(service, name)
    service.post(f"/models/{name}/reset", {})
    assert service.stats(name)["rounds"]["revealed"] == 0
    service.post(f"/models/{name}/rollback", {"to": 12})
    assert substance(exported(service, name)) == substance(before)
    assert service.stats(name)["version"] == 14


def test_predictions_of_before_a_rollback_are_void(start: Start, name: str) -> None:
    service = start()
    taught(service, name, rounds(5))
    waiting = service.predict(name, [1.0, 1.0])["prediction_id"]
    service.post(f"/models/{name}/rollback", {"to": 3})
    for _ in range(2):
        answer = service.client.post("/feedback", json={"prediction_id": waiting, "label": 1})
        assert problem_of(answer) == (410, "prediction-expired")
        assert service.stats(name)["rounds"]["pending"] == 0
        service.restart()
    later = service.predict(name, [1.0, 1.0])["prediction_id"]
    assert service.reveal(later, 1)["rounds"] == 4
    (line,) = [e for e in service.get(f"/models/{name}/events")["events"] if e["kind"] == "rolled_back"]
    assert line["to"] == line["round"] == 3 and "state" not in line
    assert line["as_of"] < line["at"]


def test_a_fork_and_its_origin_evolve_apart(start: Start, name: str) -> None:
    service = start(snapshot_every_events=7)
    taught(service, name, rounds(30))
    waiting = service.predict(name, [1.0, 1.0])["prediction_id"]
    then = exported(service, name, at=17)
    made = service.post(f"/models/{name}/fork", {"as": f"{name}-b", "at": 17})
    assert (made["model"], made["version"]) == (f"{name}-b", 17)
    assert substance(exported(service, f"{name}-b")) == substance(then)
    assert then["bound"] is not None and service.stats(f"{name}-b")["rounds"]["pending"] == 0
    origin, twin = exported(service, name), f"{name}-b"
    # The fork goes the way that the origin went, and comes to the same place.
    taught(service, twin, rounds(30)[17:])
    assert substance(exported(service, twin)) == substance(origin)
    taught(service, twin, rounds(9, seed=1))
    assert exported(service, name) == origin
    forked = exported(service, twin)
    service.reveal(waiting, -1)
    taught(service, name, rounds(9, seed=2))
    assert exported(service, twin) == forked
    service.client.delete(f"/models/{name}").raise_for_status()
    service.restart()
    assert exported(service, twin) == forked
    gone = service.client.get(f"/stats/{twin}?at=16")
    assert (problem_of(gone), gone.json()["oldest_version"]) == ((410, "version-gone"), 17)
    first = service.get(f"/models/{twin}/events")["events"][0]
    assert (first["kind"], first["forked_from"]) == ("imported", name)


def test_a_fork_is_of_the_present_version_if_none_is_named(service: Service, name: str) -> None:
    taught(service, name, rounds(6))
    assert service.post(f"/models/{name}/fork", {"as": f"{name}-b"})["version"] == 6
    assert substance(exported(service, f"{name}-b")) == substance(exported(service, name))


def test_a_fork_counts_as_a_model_and_takes_no_name_that_is_there(start: Start) -> None:
    service = start(models_max=2)
    for model in ("a", "b"):
        service.learn(model, [1.0], 1)
    taken = service.client.post("/models/a/fork", json={"as": "b"})
    assert problem_of(taken) == (409, "model-exists")
    full = service.client.post("/models/a/fork", json={"as": "c", "at": 0})
    assert problem_of(full) == (409, "too-many-models")
    assert service.stats("b")["version"] == 1


BAD: list[tuple[str, Any, str]] = [
    ("rollback", {}, "to"),
    ("rollback", {"to": -1}, "to"),
    ("rollback", {"to": "1"}, "to"),
    ("rollback", {"to": 1.5}, "to"),
    ("rollback", {"to": True}, "to"),
    ("rollback", {"to": None}, "to"),
    ("rollback", {"to": 2**70}, "to"),
    ("rollback", {"to": 2}, "to"),
    ("rollback", {"to": 1, "more": 1}, "more"),
    ("fork", {}, "as"),
    ("fork", {"as": ""}, "as"),
    ("fork", {"as": "no spaces"}, "as"),
    ("fork", {"as": 7}, "as"),
    ("fork", {"as": "x" * 129}, "as"),
    ("fork", {"as": "good", "at": "1"}, "at"),
    ("fork", {"as": "good", "at": -1}, "at"),
    ("fork", {"as": "good", "to": 1}, "to"),
]


@pytest.mark.parametrize(("route", "body", "field"), BAD)
def test_what_is_wrong_is_refused_with_its_field(service: Service, route: str, body: Any, field: str) -> None:
    if service.client.get("/models/bad-input").status_code == 404:
        taught(service, "bad-input", rounds(2))
    answer = service.client.post(f"/models/bad-input/{route}", json=body)
    assert problem_of(answer) == (422, "invalid-request"), answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert service.stats("bad-input")["version"] == 2


def test_a_version_that_has_not_come_is_refused_by_a_service_alone(
    shared_service: Service, name: str
) -> None:
    taught(shared_service, name, rounds(2))
    for route, body in (("rollback", {"to": 3}), ("fork", {"as": f"{name}-x", "at": 3})):
        answer = shared_service.client.post(f"/models/{name}/{route}", json=body)
        assert problem_of(answer) == (422, "invalid-request")
        assert "the model is at version 2" in answer.text


def test_a_fit_on_its_history_begins_after_the_last_rollback(service: Service, name: str) -> None:
    taught(service, name, rounds(10))
    service.post(f"/models/{name}/rollback", {"to": 4})
    taught(service, name, rounds(6, seed=1))
    job = service.client.post(f"/models/{name}/fit", json={"source": "history"})
    assert job.status_code == 202 and job.json()["examples"] == 6, job.text
    eventually(lambda: service.get(job.headers["location"])["state"] != "running")  # others want to fit, too


def test_whatever_kind_of_model_it_is_can_be_forked(shared_service: Service, name: str) -> None:
    for kind, settings in KINDS.items():
        model = f"{name}-{kind}"
        shared_service.create(model, **settings)
        shared_service.post(f"/models/{model}/fork", {"as": f"{model}-b"})
        assert substance(exported(shared_service, f"{model}-b")) == substance(exported(shared_service, model))


def test_witness_is_told_of_the_present_by_its_version_too(service: Service, name: str) -> None:
    taught(service, name, rounds(4))
    witness = Witness(service, name)
    witness.look()
    witness.assert_all_can_be_had_again()


def test_a_promotion_can_be_looked_behind_and_rolled_back(service: Service, name: str) -> None:
    service.create(name, challengers={"bold": {"learner": {"algorithm": "pa1"}}})
    was: dict[int, dict[str, Any]] = {}
    for number in range(12):
        if number == 6:
            service.post(f"/models/{name}/promote", {"challenger": "bold"})
            was[service.stats(name)["version"]] = service.get(f"/models/{name}/export")
        version = service.learn(name, [1.0, number % 5 - 2.0], 1 if number % 3 else -1)["version"]
        was[version] = service.get(f"/models/{name}/export")
    assert sorted(was) == list(range(1, 14))
    for version, export in was.items():
        assert service.get(f"/models/{name}/export?at={version}") == export
    assert was[13]["settings"]["champion"] == "bold"
    service.post(f"/models/{name}/rollback", {"to": 6})
    assert service.get(f"/models/{name}")["settings"]["champion"] == was[6]["settings"]["champion"] != "bold"
    service.learn(name, [1.0, 2.0], 1)
    service.assert_replay_equals_live(name)
