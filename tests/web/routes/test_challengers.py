"""Challengers through a running service: every route, killed and started again, over either journal."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.support.doctored_exports import with_digest
from tests.support.model_kinds import over_journals
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

OVER_EVERY_JOURNAL = True

AROW = {"learner": {"algorithm": "arow"}}
AUTO = {"learner": {"algorithm": "auto"}}


def rounds(many: int, kind: str = "dense", seed: int = 0) -> list[dict[str, Any]]:
    """A noisy plane: the perceptron follows the noise, and AROW does not."""
    chance = random.Random(seed)
    lines = []
    for _ in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(4)]
        sent: Any = x if kind == "dense" else {f"n{at}": value for at, value in enumerate(x)}
        lines.append({"features": sent, "label": 1 if sum(x) + chance.gauss(0, 1) > 0 else -1})
    return lines


def promotions(service: Service, model: str) -> list[dict[str, Any]]:
    events = service.get(f"/models/{model}/events?limit=1000")["events"]
    return [event for event in events if event["kind"] == "promoted"]


CASES = [
    {"challengers": {"arow": AROW, "auto": AUTO}},
    {"challengers": {"arow": AROW}, "labels": None, "coverage": 0.8, "ask": "auto"},
    {
        "features": "named",
        "challengers": {"hashed": {"features": {"kind": "hashed", "bits": 8}}, "arow": AROW},
    },
]


@over_journals("settings", CASES, on_cluster=CASES[1:2], ids=str)
def test_what_was_learned_survives_a_kill_to_the_bit(
    start: Callable[..., Service], settings: dict[str, Any]
) -> None:
    service = start(snapshot_every_events=40, durability_of_predictions="strict")
    service.create("m", **settings)
    lines = rounds(160, "named" if "features" in settings else "dense")
    waiting: list[tuple[dict[str, Any], Any]] = []
    for number, line in enumerate(lines[:100]):
        if number % 3:
            service.learn("m", line["features"], line["label"])
        else:
            waiting.append((service.predict("m", line["features"]), line["label"]))
        if number % 20 == 19:
            for served, label in waiting[:4]:
                service.reveal(served["prediction_id"], label, weight=2.0)
            del waiting[:4]
        if number == 70:
            service.post("/models/m/promote", {"challenger": "arow"})
            service.post("/models/m/challengers", {"name": "late", "learner": {"algorithm": "pa1"}})
    before, export = service.stats("m"), service.get("/models/m/export")
    service.kill()
    service.start()
    assert service.get("/models/m/export") == export
    assert service.stats("m")["challengers"] == before["challengers"]
    for served, label in waiting:  # served before the kill, by learners that are the same again
        assert service.reveal(served["prediction_id"], label)["predicted"] == served["label"]
    service.stream(lines[100:], model="m")
    service.assert_replay_equals_live("m")
    assert {served["served_by"] for served, _ in waiting} == {"original", "arow"}
    report = service.stats("m")["challengers"]
    assert report["champion"]["name"] == "arow" and report["champion"]["rounds"] == 160
    assert [each["name"] for each in report["line"]][-1] == "late"
    trail = service.get("/models/m/events?limit=1000")["events"]
    assert {event["served_by"] for event in trail if event["kind"] == "revealed"} == {"original", "arow"}
    told = [(event["kind"], event["challenger"]) for event in trail if "challenger" in event]
    assert told == [("promoted", "arow"), ("challenger_added", "late")]


def test_a_better_challenger_is_promoted_by_itself_once_and_the_trail_says_so(
    start: Callable[..., Service],
) -> None:
    service = start(snapshot_every_events=50)
    settings = {"promote": {"confidence": 0.9, "rounds_min": 50}, "challengers": {"arow": AROW}}
    for model in ("m", "other"):
        service.create(model, **settings)
    lines = rounds(600)
    for line in lines[:300]:
        service.learn("m", line["features"], line["label"])
    service.kill()
    service.start()
    answers = service.stream(lines[300:], model="m")
    assert [answer["version"] for answer in answers] == [*range(301, 601)]
    eventually(lambda: len(promotions(service, "m")) == 1)
    (mark,) = promotions(service, "m")
    assert (mark["challenger"], mark["former"]) == ("arow", "original") and mark["round"] >= 50
    stats = service.stats("m")
    (done,) = stats["challengers"]["last_promotions"]
    assert done == {"round": mark["round"], "challenger": "arow", "former": "original", "by_evidence": True}
    assert (stats["algorithm"], stats["challengers"]["evidence_needed"]) == ("arow", 60.0)
    assert service.predict("m", [1.0, 1.0, 1.0, 1.0])["served_by"] == "arow"
    service.assert_replay_equals_live("m")
    service.restart()
    assert service.stats("m")["challengers"] == stats["challengers"] and len(promotions(service, "m")) == 1


@pytest.mark.slow
def test_a_stream_is_the_same_to_the_bit_as_its_rounds_one_by_one(service: Service, name: str) -> None:
    lines = rounds(200)
    settings = {"promote": {"confidence": 0.8, "rounds_min": 20}, "challengers": {"arow": AROW, "auto": AUTO}}
    for suffix in ("a", "b", "c"):
        service.create(name + suffix, **settings)
    alone = [service.learn(f"{name}a", line["features"], line["label"]) for line in lines]
    together = service.stream(lines, model=f"{name}b")
    for one, other in zip(alone, together, strict=True):
        assert one | {"model": ""} == other | {"model": ""}
    sink = pa.BufferOutputStream()
    columns = pa.array([line["features"] for line in lines], pa.list_(pa.float64(), 4))
    table = pa.table({"features": columns, "label": [line["label"] for line in lines]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = service.client.post(
        f"/stream?model={name}c",
        content=sink.getvalue().to_pybytes(),
        headers={"content-type": "application/vnd.apache.arrow.stream"},
    )
    assert answer.status_code == 200, answer.text
    reports = [service.stats(name + suffix)["challengers"] for suffix in ("a", "b", "c")]
    assert reports[0] == reports[1] == reports[2]
    assert service.weights(f"{name}a") == service.weights(f"{name}b") == service.weights(f"{name}c")


def test_promoting_back_undoes_it_and_promoting_the_champion_changes_nothing(
    service: Service, name: str
) -> None:
    service.create(name, challengers={"arow": AROW})
    for line in rounds(50):
        service.learn(name, line["features"], line["label"])
    weights, version = service.weights(name), service.stats(name)["version"]
    promoted = service.post(f"/models/{name}/promote", {"challenger": "arow"})
    assert promoted["settings"]["learner"]["algorithm"] == "arow"
    assert list(promoted["settings"]["challengers"]) == ["original"]
    again = service.post(f"/models/{name}/promote", {"challenger": "arow"})
    assert again["version"] == promoted["version"] == version + 1
    assert service.weights(name) != weights
    service.post(f"/models/{name}/promote", {"challenger": "original"})
    assert service.weights(name) == weights
    service.assert_replay_equals_live(name)


def test_challengers_come_and_go_and_an_export_takes_them_along(service: Service, name: str) -> None:
    service.create(name)
    lines = rounds(60)
    service.stream(lines[:20], model=name)
    added = service.post(f"/models/{name}/challengers", {"name": "arow", **AROW})
    assert added["settings"]["challengers"]["arow"]["learner"]["algorithm"] == "arow"
    again = service.client.post(f"/models/{name}/challengers", json={"name": "arow"})
    assert problem_of(again) == (409, "challenger-exists")
    service.stream(lines[20:], model=name)
    assert service.stats(name)["challengers"]["line"][0]["rounds"] == 40
    export = service.get(f"/models/{name}/export")
    answer = service.client.put(f"/models/{name}-copy", json=export)
    assert answer.status_code == 201, answer.text
    assert service.stats(f"{name}-copy")["challengers"] == service.stats(name)["challengers"]
    sklearn = service.get(f"/models/{name}/export?format=sklearn")
    assert sklearn["coef_"][0] == service.weights(name)[0]  # those of the champion
    assert service.client.delete(f"/models/{name}/challengers/arow").status_code == 204
    gone = service.client.delete(f"/models/{name}/challengers/arow")
    assert problem_of(gone) == (404, "unknown-challenger")
    assert service.stats(name)["challengers"]["line"] == []
    service.stream(lines, model=name)
    service.assert_replay_equals_live(name)


def test_the_rule_of_promotion_can_be_set_later(service: Service, name: str) -> None:
    service.stream(rounds(20), model=name)
    for promote, field in (
        ({"confidence": 2.0}, "promote.confidence"),
        ({"more": 1}, "promote.more"),
        (7, "promote"),
    ):
        answer = service.client.put(f"/models/{name}/promote", json={"promote": promote})
        assert problem_of(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == field
    service.post(f"/models/{name}/challengers", {"name": "arow", **AROW})
    service.stream(rounds(300, seed=1), model=name)
    assert service.stats(name)["challengers"]["promotions"] == 0
    ruled = service.client.put(
        f"/models/{name}/promote", json={"promote": {"confidence": 0.6, "rounds_min": 9}}
    )
    assert ruled.json()["settings"]["promote"] == {"confidence": 0.6, "rounds_min": 9}
    service.stream(rounds(100, seed=2), model=name)
    assert service.stats(name)["challengers"]["last_promotions"][0]["challenger"] == "arow"
    service.assert_replay_equals_live(name)


@pytest.mark.slow
def test_a_fit_is_of_the_champion_and_challengers_go_on(service: Service, name: str) -> None:
    service.create(name, labels=None, challengers={"arow": AROW})
    lines = rounds(60)
    service.stream(lines, model=name)
    before = service.stats(name)["challengers"]["line"]
    examples = [*lines, {"features": [9.0, 9.0, 9.0, 9.0], "label": "new"}]
    job = service.post(f"/models/{name}/fit", {"examples": examples})
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    assert service.get(f"/jobs/{job['id']}")["state"] == "done"
    assert service.stats(name)["challengers"]["line"] == before
    service.learn(name, [9.0, 9.0, 9.0, 9.0], "new")
    assert service.stats(name)["challengers"]["line"][0]["rounds"] == 61
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (
            "/models",
            {"model": "x", "challengers": {"c": {"learner": {"algorithm": "x"}}}},
            "challengers.c.learner",
        ),
        ("/models", {"model": "x", "challengers": {"c": {"more": 1}}}, "challengers.c.more"),
        ("/models", {"model": "x", "challengers": {"original": {}}}, "challengers.original"),
        ("/models", {"model": "x", "challengers": {"a b": {}}}, "challengers.a b"),
        ("/models", {"model": "x", "challengers": {str(at): {} for at in range(9)}}, "challengers"),
        (
            "/models",
            {"model": "x", "challengers": {"c": {"features": "named"}}},
            "challengers.c.features.kind",
        ),
        ("/models", {"model": "x", "promote": {"confidence": 1.0}}, "promote.confidence"),
        ("/models", {"model": "x", "promote": {"rounds_min": 0}}, "promote.rounds_min"),
        ("/models", {"model": "x", "promote": {"more": 0}}, "promote.more"),
        ("/models/{}/challengers", {"name": "original"}, "name"),
        ("/models/{}/challengers", {"name": "c d"}, "name"),
        ("/models/{}/challengers", {}, "name"),
        ("/models/{}/challengers", {"name": "c", "learner": {"algorithm": "pa1", "C": 0}}, "learner.C"),
        ("/models/{}/challengers", {"name": "c", "features": {"dimension": 3}}, "features.dimension"),
        ("/models/{}/promote", {"challenger": 7}, "challenger"),
        ("/models/{}/promote", {"challenger": "a", "more": 1}, "more"),
    ],
    ids=str,
)
def test_bad_input_is_refused_by_the_field(
    service: Service, name: str, path: str, body: Any, field: str
) -> None:
    service.learn(name, [1.0, 2.0], 1)
    answer = service.client.post(path.format(name), json=body)
    assert problem_of(answer) == (422, "invalid-request")
    assert answer.json()["errors"][0]["field"].startswith(field), answer.text
    assert service.stats(name)["challengers"] is None


def test_an_unknown_challenger_and_an_unknown_model_are_not_found(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], 1)
    for model, code in ((name, "unknown-challenger"), (f"{name}-none", "unknown-model")):
        assert service.refused(f"/models/{model}/promote", {"challenger": "nobody"}) == (404, code)
        answer = service.client.delete(f"/models/{model}/challengers/nobody")
        assert problem_of(answer) == (404, code)
    assert service.refused(f"/models/{name}-none/challengers", {"name": "c"}) == (404, "unknown-model")


OF_AROW = ("contest", "challengers", "arow")


def test_a_doctored_challenger_is_refused_by_its_place(service: Service, name: str) -> None:
    service.create(name, challengers={"arow": AROW})
    service.stream(rounds(30), model=name)
    export = service.get(f"/models/{name}/export")
    for path, value, field in (
        ((*OF_AROW, "duel", 1), 10**6, "duel[1]"),
        ((*OF_AROW, "record", 0), 31, "record[0]"),
        ((*OF_AROW, "number"), 0, "contest.numbers"),
        ((*OF_AROW, "classifier", "updates"), -1, "contest.challengers.arow.classifier.updates"),
        (
            ("contest", "challengers", "arow", "features", "dimension"),
            9,
            "contest.challengers.arow.classifier.weights",
        ),
        (("contest", "last_promotions"), [[1, "a", "b", True]], "contest.last_promotions"),
        (("settings", "challengers", "arow", "size_max"), 7, "settings.challengers.arow.size_max"),
        (("settings", "challengers", "arow", "learner", "r"), -1.0, "settings.challengers.arow.learner.r"),
        (("settings", "champion"), "arow", "settings.challengers.arow.name"),
        (("settings", "promote"), {"confidence": 2.0}, "settings.promote.confidence"),
    ):
        changed = msgspec.json.decode(msgspec.json.encode(export))
        parent: Any = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
        answer = service.client.put(f"/models/{name}-bad", json=with_digest(changed))
        assert problem_of(answer) == (422, "invalid-export"), path
        assert answer.json()["errors"][0]["field"].endswith(field), answer.text


def test_of_twelve_challengers_at_once_those_past_the_limit_are_told_so(service: Service, name: str) -> None:
    service.create(name)
    with ThreadPoolExecutor(12) as threads:
        added = list(threads.map(lambda number: service.client.post(
            f"/models/{name}/challengers", json={"name": f"c{number}", **AROW}), range(12)))  # fmt: skip
    refused = [answer for answer in added if answer.status_code != 201]
    assert len(refused) == 4
    for answer in refused:
        assert problem_of(answer) == (422, "invalid-request") and "limit reached" in answer.text


def test_twelve_equal_promotions_at_once_are_one_swap_and_one_line(service: Service, name: str) -> None:
    service.create(name, challengers={"arow": AROW})
    body = {"challenger": "arow"}
    with ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(service.client.post, f"/models/{name}/promote", json=body) for _ in range(12)]
    assert [each.result().status_code for each in asked] == [200] * 12
    assert len(promotions(service, name)) == 1
