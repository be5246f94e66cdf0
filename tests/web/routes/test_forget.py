"""Forgetting: as if it had never been, and nowhere in the data directory."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from novikoff import Client
from tests.commands.running import novikoff
from tests.support.file_search import files_with
from tests.support.model_kinds import over_journals
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.routes.test_corrections import correct, label_of, rebuilt, substance, void

Start = Callable[..., Service]

SECRET = 12345.678901234567
"""A number that is in no other example."""
NEEDLES = {
    "number": struct.pack("<d", SECRET),
    "number with a name": struct.pack(">d", SECRET),
    "tag": b"mrs-smith@example.org",
    "id": b"order-of-smith",
    "name": b"smiths_ailment",
    "reason": b"smith-called",
}


def traces(data: Path) -> list[str]:
    """Which of the needles are in which files of a directory."""
    return [f"{what} in {name}" for what, needle in NEEDLES.items() for name in files_with(data, needle)]


def example(number: int, named: bool, secret: bool = False) -> Any:
    values = [float(number % 5) - 2.0, float(number % 3) - 1.0]
    if not named:
        return [*values, SECRET if secret else 1.0]
    return {"a": values[0], "b": values[1]} | ({"smiths_ailment": SECRET} if secret else {})


def lived(service: Service, model: str, *, named: bool, with_smith: bool) -> None:
    tag = NEEDLES["tag"].decode()
    for number in range(24):
        if number % 7 == 3:
            if with_smith:
                sent = example(number, named, secret=True)
                name = f"order-of-smith-{model}-{number}"
                if number % 2:
                    service.learn(model, sent, label_of(number), id=name, tag=tag)
                else:
                    service.predict(model, sent, id=name, tag=tag)
                    service.reveal(name, -label_of(number))
            continue
        service.predict(model, example(number, named), id=f"{model}-{number}", tag=f"other-{number % 2}")
        if number % 3 == 2:
            for late in (number, number - 1, number - 2):
                if late % 7 != 3:
                    service.reveal(f"{model}-{late}", label_of(late))


def ended(service: Service, job: dict[str, Any]) -> None:
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    assert service.get(f"/jobs/{job['id']}")["state"] == "done", service.get(f"/jobs/{job['id']}")


@pytest.fixture
def files(journal: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Where everything is that the journal keeps."""
    if journal == "sqlite":
        return tmp_path / "data"
    server: NatsServer = request.getfixturevalue("nats_server")
    return server.directory / "store"


@over_journals("kind", ["dense", "named"], on_cluster=["dense", "named"])
def test_what_is_forgotten_is_nowhere_and_has_never_been(
    start: Start, journal: str, kind: str, files: Path
) -> None:
    service = start(snapshot_every_events=5)
    named = kind == "named"
    for model in ("m", "twin"):
        service.create(model, features=kind, learner={"algorithm": "arow"}, coverage=0.8)
        lived(service, model, named=named, with_smith=model == "m")
    tag = NEEDLES["tag"].decode()
    correct(service, "order-of-smith-m-10", label_of(10), reason="smith-called")
    service.predict("m", example(1, named, secret=True), id="order-of-smith-waits", tag=tag)
    rebuilt(service, "m")
    version = service.stats("m")["version"]
    service.post("/models/m/rollback", {"to": version - 2})
    service.post("/models/m/rollback", {"to": version})
    for model in ("m", "twin"):
        service.learn(model, example(5, named), 1)
    service.restart()
    assert len(traces(files)) >= 4
    with Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client:
        told = client.forget("m", tag)
    assert (told.rounds, told.rebuilding) == (3, True)
    rebuilt(service, "m")
    assert traces(files) == []
    assert substance(service, "m") == substance(service, "twin")
    service.assert_replay_equals_live("m")
    trail = service.get("/models/m/events?limit=1000")["events"]
    assert [line["rounds"] for line in trail if line["kind"] == "forgotten"] == [3]
    assert sum(line["kind"] == "erased" for line in trail) == 3 and trail[-1]["kind"] == "purged"
    gone = service.client.post("/feedback", json={"prediction_id": "order-of-smith-waits", "label": 1})
    assert problem_of(gone) == (404, "unknown-prediction")
    service.stop()
    assert traces(files) == []
    if journal == "sqlite":
        checked = novikoff("doctor", "--data", service.data)
        assert checked.status == 0, checked.out
    service.start()
    assert service.stats("m")["corrections"]["rebuilding"] is False


@over_journals("then", ["revealed", "waiting"], on_cluster=["revealed", "waiting"])
def test_what_a_rebuild_knew_of_a_prediction_that_waited_is_nowhere(
    start: Start, journal: str, then: str, files: Path
) -> None:
    """Its id and what it was served again with are in the rebuild's event, and in snapshots after that."""
    service = start(snapshot_every_events=4)
    for number in range(6):
        service.learn("m", example(number, named=False), label_of(number), id=f"m-{number}")
    service.predict("m", example(6, named=False), id="order-of-smith", tag="mrs-smith@example.org")
    correct(service, "m-3", -label_of(3))
    rebuilt(service, "m")
    for number in range(7, 16):
        service.learn("m", example(number, named=False), label_of(number))
    if then == "revealed":
        service.reveal("order-of-smith", 1)
    for number in range(16, 25):
        service.learn("m", example(number, named=False), label_of(number))
    service.restart()
    assert traces(files)
    service.post("/models/m/forget", {"tag": "mrs-smith@example.org"})
    rebuilt(service, "m")
    assert traces(files) == []
    service.assert_replay_equals_live("m")
    for version in range(1, 25):
        service.get(f"/stats/m?at={version}")
    service.restart()
    assert traces(files) == []
    service.assert_replay_equals_live("m")
    if journal == "sqlite":
        service.stop()
        checked = novikoff("doctor", "--data", service.data)
        assert checked.status == 0, checked.out


@pytest.mark.parametrize("journal", ["sqlite", "jetstream"], indirect=True)
def test_one_tag_after_the_other_and_nothing_else(start: Start) -> None:
    service = start()
    lines = [{"features": [float(at % 4), 1.0], "label": 1 if at % 3 else -1} for at in range(30)]
    for line, tag in ((4, "a"), (9, "b"), (17, "a")):
        lines[line]["tag"] = tag
    service.stream(lines, "m")
    service.stream([line for line in lines if line.get("tag") != "a"], "without-a")
    service.stream([line for line in lines if "tag" not in line], "without-both")
    assert service.post("/models/m/forget", {"tag": "nobody's"})["rounds"] == 0
    assert service.post("/models/m/forget", {"tag": "a"})["rounds"] == 2
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "without-a")
    assert service.post("/models/m/forget", {"tag": "a"})["rounds"] == 0
    assert service.post("/models/m/forget", {"tag": "b"})["rounds"] == 1
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "without-both")
    service.kill()
    service.start()
    assert substance(service, "m") == substance(service, "without-both")
    rows = service.client.get("/models/m/history").text.splitlines()
    assert len(rows) == 27
    assert service.get("/stats/m?at=12")["rounds"]["revealed"] == 10  # two of these are forgotten
    service.assert_replay_equals_live("m")


@over_journals("kind", ["named"], on_cluster=["named"])
def test_nothing_of_names_and_classes_is_left_in_fits_challengers_and_other_rounds(
    start: Start, journal: str, kind: str, files: Path
) -> None:
    """All of it knew of them when it was made."""
    service = start(snapshot_every_events=6, durability_of_predictions="strict")
    service.create("m", features=kind, labels=None, learner={"algorithm": "pa1"}, coverage=0.9)
    tag = NEEDLES["tag"].decode()
    for number in range(12):
        service.learn("m", example(number, named=True), label_of(number), id=f"m-{number}")
        if number % 5 == 2:
            sent = example(number, named=True, secret=True)
            service.learn("m", sent, "smith-called", id=f"order-of-smith-{number}", tag=tag)
            service.predict("m", sent, id=f"order-of-smith-{number}-waits", tag=tag)
    for number in range(3):
        service.learn("m", {"a": -9.0, "b": 9.0}, "smith-called", id=f"order-of-smith-more-{number}", tag=tag)
    for other in range(3):  # of whom the class of the one to be forgotten is served
        served = service.predict("m", {"a": -9.0, "b": 9.0}, id=f"late-{other}")
    assert served["label"] == "smith-called"
    if journal == "sqlite":  # streams keep what was served to rounds with ids
        service.reveal("late-0", 1)
    for body in ({"source": "history"}, {"source": "history", "passes_max": 2}):
        ended(service, service.post("/models/m/fit", body))
    job = {"name": "warm", "start": "history", "learner": {"algorithm": "arow"}}
    ended(service, service.post("/models/m/challengers", job))
    for number in range(12, 20):
        service.learn("m", example(number, named=True), label_of(number))
    service.restart()
    assert {trace.split(" in ")[0] for trace in traces(files)} >= {"tag", "name", "reason", "id"}
    service.post("/models/m/forget", {"tag": tag})
    rebuilt(service, "m")
    service.reveal("late-1", 1)
    assert {each["served"] for each in service.get("/models/m/pending")["pending"]} == {None}
    service.restart()
    assert traces(files) == []
    service.assert_replay_equals_live("m")
    if journal == "sqlite":
        service.stop()
        assert novikoff("doctor", "--data", service.data).status == 0
        service.start()
    correct(service, "m-3", 1)
    rebuilt(service, "m")
    assert service.stats("m")["challengers"]["line"][0]["warm"]["rounds"] == 12 + (journal == "sqlite")


@pytest.mark.slow
@over_journals("kind", ["dense"], on_cluster=["dense"])
def test_a_class_that_a_correction_had_removed_does_not_stay_in_a_later_fit(
    start: Start, journal: str, kind: str, files: Path
) -> None:
    """The fit seems to have brought it, as the model did not have it any more."""
    service = start()
    service.create("m", labels=None, features=kind)
    for number in range(6):
        service.learn("m", example(number, named=False), label_of(number))
    service.learn("m", example(1, named=False), "smith-called", id="order-of-smith", tag="smith")
    correct(service, "order-of-smith", 1)
    rebuilt(service, "m")
    examples = [
        {"features": example(number, named=False), "label": label}
        for number, label in enumerate([1, -1, "smith-called", "new"])
    ]
    ended(service, service.post("/models/m/fit", {"examples": examples}))
    assert service.fold("m").labels.values == [label_of(0), label_of(1), "smith-called", "new"]
    service.post("/models/m/forget", {"tag": "smith"})
    rebuilt(service, "m")
    service.restart()
    assert traces(files) == []
    assert service.fold("m").labels.values == [label_of(0), label_of(1), "new"]
    service.assert_replay_equals_live("m")


@pytest.mark.slow
@over_journals("where", (places := ["expired by a rollback", "in the journal only"]), on_cluster=places)
def test_what_was_served_to_others_is_forgotten_wherever_they_are(
    start: Start, journal: str, where: str, files: Path
) -> None:
    few = {"pending_bytes_max": 8_000} if where == "in the journal only" else {}
    service = start(durability_of_predictions="strict", **few)
    service.create("m", labels=None)
    service.learn("m", [1.0, 1.0], "usual")
    for number in range(3):
        service.learn("m", [-9.0, 9.0], "smith-called", id=f"s{number}", tag="smith")
    for number in range(20):
        assert service.predict("m", [-9.0, 9.0], id=f"late-{number}")["label"] == "smith-called"
    if where == "expired by a rollback":
        service.post("/models/m/rollback", {"to": 1})
    service.post("/models/m/forget", {"tag": "smith"})
    rebuilt(service, "m")
    service.stop()
    assert not [trace for trace in traces(files) if trace.startswith("reason")]


@pytest.mark.parametrize("journal", ["jetstream"], indirect=True)
def test_another_replica_forgets_what_it_has_served(start: Start, tmp_path: Path, files: Path) -> None:
    service, other = start(), start(tmp_path / "other")
    service.create("m", labels=None)
    service.learn("m", [1.0, 1.0], "usual")
    version = service.learn("m", [-9.0, 9.0], "smith-called", id="s", tag="smith")["version"]
    for name in ("late", "later"):
        served = other.predict("m", [-9.0, 9.0], id=name, min_version=version)
        assert served["label"] == "smith-called"
    service.post("/models/m/forget", {"tag": "smith"})
    rebuilt(service, "m")

    def pending() -> set[Any]:
        return {each["served"] for each in other.get("/models/m/pending")["pending"]}

    eventually(lambda: pending() == {None})
    other.reveal("late", "usual")
    other.stop()
    service.stop()
    assert not [trace for trace in traces(files) if trace.startswith("reason")]


@pytest.mark.slow
def test_the_history_goes_on_telling_what_was_answered(service: Service, name: str) -> None:
    service.create(name, learner={"algorithm": "arow"}, labels=[-1, 1])
    for number in range(30):
        tag = {"tag": "t"} if number in (4, 11) else {}
        service.learn(name, [*example(number, named=False), number / 7], label_of(number), **tag)
        if number == 8:
            lines = [
                {"features": [float(at % 4), 1.0, 0.5, 2.0][:4], "label": 1 if at % 3 else -1}
                for at in range(20)
            ]
            service.stream(lines, name)
            service.predict(name, [1.0, 2.0, 0.5, 1.0], id=f"{name}-late")
    service.reveal(f"{name}-late", 1)

    def answered() -> list[Any]:
        rows = map(json.loads, service.client.get(f"/models/{name}/history").text.splitlines())
        return [
            [row[each] for each in ("version", "served", "score", "probability", "mistake")] for row in rows
        ]

    before = answered()
    assert service.post(f"/models/{name}/forget", {"tag": "t"})["rounds"] == 2
    rebuilt(service, name)
    assert answered() == [row for row in before if row[0] not in (5, 12 + 20)]
    service.assert_replay_equals_live(name)


@over_journals("kind", ["dense"], on_cluster=["dense"])
def test_a_prediction_that_was_voided_is_forgotten_too(
    start: Start, journal: str, kind: str, files: Path
) -> None:
    service = start(snapshot_every_events=3, durability_of_predictions="strict")
    service.predict("m", [1.0], id="order-of-smith", tag="mrs-smith@example.org")
    void(service, "order-of-smith")
    for number in range(5):
        service.learn("m", [1.0, 2.0][:1], label_of(number))
    service.restart()
    assert traces(files)
    service.post("/models/m/forget", {"tag": "mrs-smith@example.org"})
    rebuilt(service, "m")
    service.restart()
    assert traces(files) == []
    assert service.stats("m")["corrections"]["voided"] == 1
    service.assert_replay_equals_live("m")


def test_a_tag_that_is_none_is_refused(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    for body in ({}, {"tag": ""}, {"tag": "x" * 129}, {"tag": 7}, {"tag": "a\x00"}, {"tag": "a", "more": 1}):
        answer = service.client.post(f"/models/{name}/forget", json=body)
        assert problem_of(answer) == (422, "invalid-request"), answer.text
    assert problem_of(service.client.post("/models/nobody/forget", json={"tag": "a"}))[0] == 404
    assert service.stats(name)["corrections"] is None
