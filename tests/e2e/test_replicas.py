"""Several replicas on one cluster: any of them serves any model, and all come to the same bits."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.concurrent_requests import at_once
from tests.support.nats_servers import NatsCluster
from tests.support.replicas import Replica
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def replicas(nats_cluster: NatsCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    settings = nats_cluster.settings("replicas")
    data = tmp_path_factory.mktemp("none")
    started = [Replica(data, snapshot_every_events=20, **settings).start() for _ in range(3)]
    yield started
    for service in started:
        service.close()


def assert_all_alike(replicas: list[Service], model: str) -> None:
    """Every replica has the same weights and statistics, and a fold of the log has them too."""
    version = max(replica.stats(model)["version"] for replica in replicas)
    for replica in replicas:
        replica.post("/predict", {"model": model, "features": [0.0, 0.0], "min_version": version})
    weights = [replica.get(f"/models/{model}/weights") for replica in replicas]
    assert all(one == weights[0] for one in weights)
    for replica in replicas:
        replica.assert_replay_equals_live(model)


@pytest.mark.smoke
def test_a_prediction_made_on_one_is_revealed_on_another(replicas: list[Service]) -> None:
    a, b, c = replicas
    for i in range(30):
        served = a.predict("handed-on", [1.0, float(i % 5)])
        assert b.reveal(served["prediction_id"], -1)["rounds"] == 2 * i + 1
        assert c.learn("handed-on", [2.0, float(i % 3)], 1)["rounds"] == 2 * i + 2
    assert_all_alike(replicas, "handed-on")
    eventually(lambda: a.stats("handed-on")["rounds"]["pending"] <= 1)


@pytest.mark.smoke
def test_of_two_reveals_sent_to_two_replicas_at_once_one_is_learned(replicas: list[Service]) -> None:
    a, b, c = replicas
    for i in range(40):
        prediction_id = a.predict("twice", [1.0, float(i)])["prediction_id"]
        body = {"prediction_id": prediction_id, "label": -1}
        first, second = at_once([(b, "/feedback", body), (c, "/feedback", body)])
        assert (first.status_code, second.status_code) == (200, 200), (first.text, second.text)
        assert first.json() == second.json() and first.json()["rounds"] == i + 1
        replayed = [one.headers.get("idempotent-replay") for one in (first, second)]
        assert sorted(replayed, key=str) == [None, "true"]
    assert_all_alike(replicas, "twice")


def test_equal_reveals_at_once_on_a_replica_that_has_not_served_it_are_one(replicas: list[Service]) -> None:
    a, b, _ = replicas
    for i in range(20):
        prediction_id = a.predict("elsewhere", [1.0, float(i)])["prediction_id"]
        body = {"prediction_id": prediction_id, "label": -1}
        answers = at_once([(b, "/feedback", body)] * 3)
        assert [answer.status_code for answer in answers] == [200] * 3, [answer.text for answer in answers]
        assert len({answer.content for answer in answers}) == 1 and answers[0].json()["rounds"] == i + 1
    assert_all_alike(replicas, "elsewhere")


@pytest.mark.smoke
def test_of_two_labels_sent_to_two_replicas_at_once_one_counts(replicas: list[Service]) -> None:
    a, b, c = replicas
    for i in range(20):
        prediction_id = c.predict("torn", [1.0, float(i)])["prediction_id"]
        answers = at_once(
            [(one, "/feedback", {"prediction_id": prediction_id, "label": y}) for one, y in ((a, 1), (b, -1))]
        )
        assert sorted(one.status_code for one in answers) == [200, 409]
        refused = next(one for one in answers if one.status_code == 409)
        assert problem_of(refused) == (409, "feedback-conflict")
    assert a.stats("torn")["rounds"]["revealed"] == 20
    assert_all_alike(replicas, "torn")


@pytest.mark.smoke
def test_an_id_of_the_clients_own_is_used_once_whoever_is_asked(replicas: list[Service]) -> None:
    a, b, c = replicas
    a.learn("ids", [1.0, 1.0], 1)
    for i in range(10):
        body = {"model": "ids", "features": [1.0, float(i)], "id": f"own-{i}"}
        first, second = at_once([(a, "/predict", body), (b, "/predict", body)])
        assert first.json() == second.json(), (first.text, second.text)
        other = {**body, "features": [5.0, 5.0]}
        assert problem_of(c.client.post("/predict", json=other)) == (409, "prediction-id-taken")
        whole = {"model": "ids", "features": [2.0, float(i)], "label": -1, "id": f"whole-{i}"}
        learned = at_once([(a, "/learn", whole), (b, "/learn", whole), (c, "/learn", whole)])
        assert [one.status_code for one in learned] == [200] * 3, [one.text for one in learned]
        assert learned[0].json() == learned[1].json() == learned[2].json()
        elsewhere = {**whole, "model": "ids-too"}
        assert problem_of(b.client.post("/learn", json=elsewhere)) == (409, "prediction-id-taken")
    assert b.stats("ids")["rounds"]["revealed"] == 11
    assert_all_alike(replicas, "ids")


@pytest.mark.smoke
def test_a_model_that_all_make_at_once_is_one_model(replicas: list[Service]) -> None:
    for i in range(5):
        body = {"model": f"made-{i}", "features": [1.0, 2.0], "label": -1}
        answers = at_once([(one, "/learn", body) for one in replicas])
        assert sorted(one.json()["rounds"] for one in answers) == [1, 2, 3], [one.text for one in answers]
        longer = {**body, "features": [1.0, 2.0, 3.0]}
        assert {one.status_code for one in at_once([(one, "/learn", longer) for one in replicas])} == {422}
        assert_all_alike(replicas, f"made-{i}")


def test_a_version_that_another_replica_has_told_of_is_waited_for(replicas: list[Service]) -> None:
    a, b, _ = replicas
    for i in range(100):
        version = a.learn("awaited", [1.0, float(i)], 1 if i % 2 else -1)["version"]
        served = b.predict("awaited", [1.0, 1.0], min_version=version)
        assert served["version"] >= version
    behind = {"model": "awaited", "features": [1.0, 1.0], "min_version": 10_000}
    refused = b.client.post("/predict", json=behind)
    assert problem_of(refused) == (503, "version-not-reached") and refused.headers["retry-after"]


def test_deleting_and_making_again_is_the_same_everywhere(replicas: list[Service]) -> None:
    a, b, c = replicas
    for i in range(5):
        waiting = a.learn("reborn", [1.0, 1.0], 1, id="the-first") and a.predict("reborn", [1.0, 2.0])
        eventually(lambda: b.client.get("/models/reborn").status_code == 200)
        assert b.client.delete("/models/reborn").status_code == 204
        eventually(lambda: all(one.client.get("/models/reborn").status_code == 404 for one in replicas))
        gone = c.client.post("/feedback", json={"prediction_id": waiting["prediction_id"], "label": 1})
        assert gone.status_code == 404, i
    assert c.learn("reborn", [1.0, 1.0, 1.0], -1, id="the-first")["rounds"] == 1
    eventually(lambda: a.client.get("/models/reborn").status_code == 200)
    for replica in replicas:
        replica.post("/predict", {"model": "reborn", "features": [0.0] * 3, "min_version": 1})
        replica.assert_replay_equals_live("reborn")


@pytest.mark.smoke
def test_first_answers_are_found_again_by_every_replica(replicas: list[Service]) -> None:
    """Snapshots are taken by whichever replica is first, and what came of each round goes with them."""
    answers = []
    for i in range(90):
        served = replicas[i % 3].predict("retold", [1.0, float(i % 7)])
        answers.append(replicas[(i + 1) % 3].reveal(served["prediction_id"], 1 if i % 2 else -1))
    for i, answer in enumerate(answers):
        body = {"prediction_id": answer["prediction_id"], "label": answer["label"]}
        again = replicas[(i + 2) % 3].client.post("/feedback", json=body)
        assert again.json() == answer and again.headers["idempotent-replay"] == "true"
    assert_all_alike(replicas, "retold")


def test_all_replicas_promote_a_challenger_with_the_same_reveal_and_the_trail_says_it_once(
    replicas: list[Service],
) -> None:
    chance = random.Random(1)
    settings = {"promote": {"confidence": 0.9, "rounds_min": 50}}
    replicas[0].create("contested", challengers={"arow": {"learner": {"algorithm": "arow"}}}, **settings)
    for number in range(500):
        x = [round(chance.gauss(0, 1), 3), round(chance.gauss(0, 1), 3)]
        label = 1 if sum(x) + chance.gauss(0, 1) > 0 else -1
        served = replicas[number % 3].predict("contested", x)
        replicas[(number + 1) % 3].reveal(served["prediction_id"], label)
    assert_all_alike(replicas, "contested")
    (done,) = replicas[0].stats("contested")["challengers"]["last_promotions"]
    assert (done["challenger"], done["by_evidence"]) == ("arow", True)
    for replica in replicas:
        events = replica.get("/models/contested/events?limit=1000")["events"]
        marks = [event for event in events if event["kind"] == "promoted"]
        assert [mark["round"] for mark in marks] == [done["round"]]


def test_promotions_of_two_replicas_at_once_are_one(replicas: list[Service]) -> None:
    a, b, c = replicas
    a.create("swapped", challengers={"arow": {"learner": {"algorithm": "arow"}}})
    a.learn("swapped", [1.0, 2.0], 1)
    b.predict("swapped", [1.0, 2.0], min_version=1)
    c.predict("swapped", [1.0, 2.0], min_version=1)
    body = {"challenger": "arow"}
    answers = at_once([(one, "/models/swapped/promote", body) for one in replicas])
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert_all_alike(replicas, "swapped")
    assert a.stats("swapped")["challengers"]["promotions"] == 1


@pytest.mark.smoke
def test_a_new_replica_begins_where_the_others_are(
    replicas: list[Service], nats_cluster: NatsCluster, tmp_path: Path
) -> None:
    a, b, _ = replicas
    for i in range(75):
        answer = a.learn("joined", [1.0, float(i % 4)], 1 if i % 2 else -1, id=f"joined-{i}")
    waiting = b.predict("joined", [1.0, 1.0])["prediction_id"]
    fourth = Replica(tmp_path, snapshot_every_events=20, **nats_cluster.settings("replicas")).start()
    try:
        again = fourth.learn("joined", [1.0, float(74 % 4)], -1, id="joined-74")
        assert again == answer
        assert fourth.reveal(waiting, 1)["rounds"] == 76
        assert_all_alike([*replicas, fourth], "joined")
        assert fourth.stop() == 0
    finally:
        fourth.close()


@pytest.mark.smoke
def test_lists_and_totals_are_those_of_all(replicas: list[Service]) -> None:
    for i, replica in enumerate(replicas):
        for _ in range(i + 1):
            replica.learn(f"listed-{i}", [1.0], 1)

    def totals(replica: Service) -> Any:
        page = replica.get("/stats?model=listed-&sort=rounds")
        return [line["model"] for line in page["models"]], page["totals"]["rounds"]["revealed"]

    eventually(lambda: all(totals(one) == (["listed-2", "listed-1", "listed-0"], 6) for one in replicas))


def test_what_each_replica_gives_up_is_counted_once(nats_cluster: NatsCluster, tmp_path: Path) -> None:
    settings = nats_cluster.settings("giving-up")
    both = [Replica(tmp_path, pending_max=2, **settings).start() for _ in range(2)]
    try:
        both[0].learn("m", [1.0], 1)
        served: list[Any] = []

        def has_been_swept_several_times() -> bool:
            """Of both, each at its own moments, and what it gave up is in the log."""
            served.extend(replica.predict("m", [float(len(served))]) for replica in both)
            events = both[0].get("/models/m/events")["events"]
            return sum(event["kind"] == "expired" for event in events) >= 6

        eventually(has_been_swept_several_times, every=0.1)
        given_up = len(served) - 4
        eventually(lambda: [one.stats("m")["rounds"]["expired"] for one in both] == [given_up] * 2)
        assert [one.stats("m")["rounds"]["pending"] for one in both] == [2, 2]
        for replica in both:
            replica.assert_replay_equals_live("m")
    finally:
        for replica in both:
            replica.close()
