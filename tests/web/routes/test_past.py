"""`at=VERSION`: what a model was at a version can be had again, to the bit."""

from collections.abc import Callable
from typing import Any

from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of
from tests.support.version_records import Stream, Witness

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]

KINDS: dict[str, dict[str, Any]] = {
    "perceptron": {},
    "arow-named": {"learner": {"algorithm": "arow"}, "features": {"kind": "named", "standardize": True}},
    "appearing-classes": {"learner": {"algorithm": "pa1"}, "labels": None, "features": "named"},
    "averaged-sets": {"learner": {"algorithm": "averaged"}, "labels": ["a", "b", "c"], "coverage": 0.8},
    "auto-asks": {"learner": {"algorithm": "auto"}, "ask": "auto"},
    "hashed": {"learner": {"algorithm": "logistic"}, "features": {"kind": "hashed", "bits": 4}},
}


def streamed(service: Service, name: str, kind: str, steps: int, seed: int) -> tuple[Stream, Witness]:
    """A model of a kind, taken through some steps of a stream under the eyes of a witness."""
    settings = KINDS[kind]
    service.create(name, **settings)
    labels = settings.get("labels", [-1, 1]) or ["x", "y", "z"]
    stream = Stream(service, name, seed, named=settings.get("features", "dense") != "dense", labels=labels)
    witness = Witness(service, name)
    go_on(stream, witness, steps)
    return stream, witness


def go_on(stream: Stream, witness: Witness, steps: int) -> None:
    for _ in range(steps):
        stream.step(rollback_to=[version for version in witness.seen if version < witness.version])
        witness.look()


@over_journals("kind", KINDS, on_cluster=["appearing-classes", "auto-asks"])
def test_every_version_can_be_had_again_also_after_a_kill(start: Start, kind: str, name: str) -> None:
    service = start(snapshot_every_events=9, durability_of_predictions="strict")
    stream, witness = streamed(service, name, kind, 45, seed=len(kind))
    witness.assert_all_can_be_had_again(list(witness.seen)[::5])
    service.kill()
    service.start()
    witness.assert_all_can_be_had_again()
    go_on(stream, witness, 15)
    service.restart()
    witness.assert_all_can_be_had_again(list(witness.seen)[::3])


def test_versions_amid_a_block_are_those_of_the_rounds_one_by_one(service: Service, name: str) -> None:
    rounds = [([float(i % 5), float(i % 3) - 1.0], -1 if i % 2 else 1) for i in range(60)]
    alone = f"{name}-alone"
    weights = []
    for features, label in rounds:
        service.learn(alone, features, label)
        weights.append(service.weights(alone))
    service.learn(name, *rounds[0])
    service.stream([{"features": x, "label": y} for x, y in rounds[1:]], name)
    assert len(service.get(f"/models/{name}/events")["events"]) < 10
    for version in (1, 2, 17, 40, 59, 60):
        (row,) = service.get(f"/models/{name}/weights?at={version}")["classes"]
        assert (row["weights"], row["bias"]) == weights[version - 1]
        assert service.get(f"/stats/{name}?at={version}")["rounds"]["revealed"] == version


def test_versions_that_are_none_are_refused(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    for path in (f"/models/{name}/weights", f"/stats/{name}", f"/models/{name}/export"):
        for at in ("-1", "x", "1.5", "", str(2**63)):
            answer = service.client.get(path, params={"at": at})
            assert problem_of(answer) == (422, "invalid-request") and '"field":"at"' in answer.text
        assert problem_of(service.client.get(path.replace(name, "nobody"), params={"at": 0}))[0] == 404


def test_an_imported_model_begins_with_the_version_it_came_with(service: Service, name: str) -> None:
    for i in range(5):
        service.learn(name, [1.0, float(i)], 1 if i % 2 else -1)
    export = service.get(f"/models/{name}/export")
    assert service.client.put(f"/models/{name}-too", json=export).status_code == 201
    service.learn(f"{name}-too", [1.0, 2.0], 1)
    gone = service.client.get(f"/models/{name}-too/weights?at=4")
    assert (problem_of(gone), gone.json()["oldest_version"]) == ((410, "version-gone"), 5)
    assert (
        service.get(f"/models/{name}-too/weights?at=5")["classes"]
        == service.get(f"/models/{name}/weights")["classes"]
    )
