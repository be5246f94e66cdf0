"""GET /models/{model}/pending: what waits for a label, page by page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

OVER_EVERY_JOURNAL = True

Start = Callable[..., Service]


def pages(service: Service, model: str, **query: Any) -> list[list[dict[str, Any]]]:
    found, following = [], {}
    while True:
        answer = service.client.get(f"/models/{model}/pending", params={**query, **following})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append(page["pending"])
        if page["next"] is None:
            return found
        following = {"cursor": page["next"]}


def ids(page: list[dict[str, Any]]) -> list[str]:
    return [each["prediction_id"] for each in page]


def test_what_waits_is_listed_with_its_features_and_what_was_served(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], -1)
    assert pages(service, name) == [[]]
    made = service.predict(name, [0.5, 1.0], id="first")
    (((listed,)),) = pages(service, name)
    assert listed == {
        "prediction_id": "first",
        "at": listed["at"],
        "features": [0.5, 1.0],
        "served": made["label"],
        "score": made["score"],
        "probability": made["probability"],
        "version_seen": 1,
    }
    service.reveal("first", 1)
    assert pages(service, name) == [[]]
    assert problem_of(service.client.get(f"/models/{name}.none/pending")) == (404, "unknown-model")


def test_names_and_whether_a_label_is_asked_for_are_listed(service: Service, name: str) -> None:
    service.create(name, features="named", ask={"b": 1.0})
    made = service.predict(name, {"word": "free", "links": 2})
    (((listed,)),) = pages(service, name)
    assert listed["features"] == {"word=free": 1.0, "links": 2.0}
    assert listed["ask"] == made["ask"]


def test_pages_are_newest_or_least_sure_first_and_skip_nothing(service: Service, name: str) -> None:
    for number in range(12):
        service.learn(name, [float(number % 5 - 2), 1.0], 1 if number % 5 > 1 else -1)
    made = [service.predict(name, [(number * 7 % 11 - 5) / 2, 1.0]) for number in range(11)]
    newest = [each["prediction_id"] for each in reversed(made)]
    assert [ids(page) for page in pages(service, name, limit=4)] == [newest[:4], newest[4:8], newest[8:]]
    unsure = [each for page in pages(service, name, limit=3, order="least_sure") for each in page]
    assert sorted(ids(unsure)) == sorted(newest)
    sureness = [(each["probability"], abs(each["score"])) for each in unsure]
    assert sureness == sorted(sureness) and len(set(sureness)) > 3


def test_a_page_begins_where_the_one_before_ended_although_its_last_was_revealed(
    service: Service, name: str
) -> None:
    made = [service.predict(name, [float(number)])["prediction_id"] for number in range(4)]
    first = service.get(f"/models/{name}/pending?limit=2")
    assert ids(first["pending"]) == [made[3], made[2]]
    service.reveal(made[2], 1)
    rest = service.get(f"/models/{name}/pending?limit=2&cursor={first['next']}")
    assert ids(rest["pending"]) == [made[1], made[0]] and rest["next"] is None


@pytest.mark.parametrize("query", ["cursor=nonsense", "order=oldest", "limit=0", "limit=1001", "after=x"])
def test_what_makes_no_sense_is_refused(service: Service, name: str, query: str) -> None:
    service.predict(name, [1.0])
    answer = service.client.get(f"/models/{name}/pending?{query}")
    assert problem_of(answer) == (422, "invalid-request")
    assert query.partition("=")[0] in answer.json()["errors"][0]["field"]


def test_a_restart_and_a_reset_are_told_apart(start: Start) -> None:
    service = start()
    service.predict("m", [1.0], id="kept")
    service.restart()
    assert ids(pages(service, "m")[0]) == ["kept"]
    service.post("/models/m/reset", {})
    assert pages(service, "m") == [[]]


def test_replicas_list_what_the_others_have_served(nats_server: NatsServer, tmp_path: Path) -> None:
    settings = nats_server.settings("pending-of-all")
    replicas = [Service(tmp_path / name, **settings).start() for name in ("a", "b")]
    try:
        for number in range(7):
            replicas[number % 2].predict("m", [float(number)], id=f"p{number}")
        wanted = [f"p{number}" for number in reversed(range(7))]
        for replica in replicas:

            def listed(replica: Service = replica) -> list[str]:
                return [each for page in pages(replica, "m", limit=3) for each in ids(page)]

            eventually(lambda: listed() == wanted, otherwise="a replica lists only its own")
        replicas[0].reveal("p1", 1)  # the other has served it
        eventually(lambda: "p1" not in [each for page in pages(replicas[1], "m") for each in ids(page)])
        assert "p1" not in [each for page in pages(replicas[0], "m") for each in ids(page)]
    finally:
        for replica in replicas:
            replica.close()
