"""Two tenants with a key each: neither can see, change, or find out anything of the other's."""

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.api_keys import Holder, assert_no_secret_in, good, lines_of, refusal
from tests.support.service_process import Service
from tests.support.service_thread import ServiceThread

Start = Callable[..., Service]

SECRET = "acme-secret"
ABSENT = "acme-nothing"
"""Two names of the other tenant: there is a model of the first, and none of the second."""


class Town:
    """Acme has models and a history; Zeta attacks; the owner sees everything."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.acme = Holder("acme", "admin", "acme-")
        self.zeta = Holder("zeta", "admin", "zeta-")
        self.owner = Holder("owner", "admin")
        service.settings["api_keys"] = lines_of(self.acme, self.zeta, self.owner)

    def furnish(self) -> "Town":
        self.service.start()
        for holder in (self.acme, self.zeta, self.owner):
            holder.at(self.service)
        for i in range(5):
            good(self.acme.learn(SECRET, [1.0, i], 1 if i % 2 else -1))
        self.waiting = good(self.acme.predict(SECRET, [1.0, 2.0]))["prediction_id"]
        self.revealed = good(self.acme.predict(SECRET, [1.0, 3.0]))["prediction_id"]
        good(self.acme.reveal(self.revealed, 1))
        self.others = [good(self.acme.predict(SECRET, [1.0, 3.0]))["prediction_id"] for _ in range(2)]
        good(self.acme.reveal(self.others[0], 1))
        good(self.acme.predict(SECRET, [1.0, 4.0], id="order-16"))
        self.chosen = "order-17"
        good(self.acme.predict(SECRET, [1.0, 4.0], id=self.chosen))
        good(self.acme.learn(SECRET, [1.0, 5.0], 1, id="order-18"))
        # Two pairs more, that Zeta will choose, too, each in a test of its own: tests may run in any order.
        for waiting, learned in (("order-27", "order-28"), ("order-37", "order-38")):
            good(self.acme.predict(SECRET, [1.0, 4.0], id=waiting))
            good(self.acme.learn(SECRET, [1.0, 5.0], 1, id=learned))
        return self

    def let_zeta_begin_anew(self) -> None:
        """With one model of one round, whatever the tests before have left."""
        for model in good(self.zeta.get("/models"))["models"]:
            assert self.zeta.client.delete(f"/models/{model['model']}").status_code == 204
        good(self.zeta.learn("zeta-own", [1.0], 1))

    def acme_state(self) -> Any:
        return [
            self.acme.get(f"/{path}").json()
            for path in (f"stats/{SECRET}", f"models/{SECRET}/weights", "models")
        ]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    town = Town(ServiceThread(tmp_path_factory.mktemp("town") / "data", pending_ttl_seconds=3600)).furnish()
    yield town
    town.service.close()
    assert_no_secret_in("".join(town.service.log), town.acme, town.zeta, town.owner)


@pytest.fixture(autouse=True)
def acme_is_untouched(request: pytest.FixtureRequest) -> Iterator[None]:
    if "town" not in request.fixturenames:
        yield
        return
    town: Town = request.getfixturevalue("town")
    town.let_zeta_begin_anew()
    before = town.acme_state()
    yield
    after = town.acme_state()
    for state in (before[0], after[0]):
        del state["windows"]  # these depend on when one asks
    assert after == before


def same_but_for_the_name(one: httpx.Response, other: httpx.Response) -> bool:
    """Whether two answers, about SECRET and about ABSENT, are the same in every byte that counts."""

    def form(answer: httpx.Response) -> Any:
        headers = {k: v for k, v in answer.headers.items() if k not in ("x-request-id", "content-length")}
        return answer.status_code, headers, answer.text.replace(SECRET, "?").replace(ABSENT, "?")

    return form(one) == form(other)


# Models


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/stats/{}", None),
        ("GET", "/stats/{}?fields=mistakes", None),
        ("GET", "/feed?model={}", None),
        ("GET", "/models/{}", None),
        ("GET", "/models/{}/weights", None),
        ("GET", "/models/{}/events", None),
        ("GET", "/models/{}/export", None),
        ("GET", "/models/{}/export?format=sklearn", None),
        ("DELETE", "/models/{}", None),
        ("POST", "/models/{}/reset", None),
        ("POST", "/models/{}/challengers", {"name": "c"}),
        ("POST", "/models/{}/challengers", {"name": "c", "start": "history"}),
        ("DELETE", "/models/{}/challengers/c", None),
        ("POST", "/models/{}/promote", {"challenger": "c"}),
        ("GET", "/stats/{}?at=1", None),
        ("GET", "/stats/{}?at=999", None),
        ("GET", "/models/{}/weights?at=1", None),
        ("GET", "/models/{}/export?at=1", None),
        ("GET", "/models/{}/history", None),
        ("GET", "/models/{}/history?format=arrow", None),
        ("GET", "/models/{}/pending", None),
        ("GET", "/models/{}/pending?order=least_sure", None),
        ("GET", "/models/{}/history?from_version=999", None),
        ("POST", "/models/{}/rollback", {"to": 1}),
        ("POST", "/models/{}/rollback", {"to": 999}),
        ("POST", "/models/{}/fork", {"as": "zeta-fork"}),
        ("POST", "/models/{}/fork", {"as": "zeta-fork", "at": 1}),
        ("POST", "/models/{}/fork", {"as": "acme-fork", "at": 1}),
        ("PUT", "/models/{}/promote", {"promote": None}),
        ("POST", "/models/{}/forget", {"tag": "t"}),
        ("POST", "/models/{}/replay", {"settings": {}}),
        ("POST", "/models/{}/replay", {"settings": {"learner": {"algorithm": "nonsense"}}}),
        ("POST", "/models/{}/replay", {"settings": {}, "as": "zeta-twin"}),
        ("POST", "/models/{}/fit", {"source": "history"}),
        ("POST", "/models/{}/fit", {"source": "history", "nonsense": 1}),
        ("POST", "/models/{}/fit", {"examples": [{"features": [1.0], "label": 1}]}),
    ],
)
def test_the_models_of_others_look_absent(town: Town, method: str, path: str, body: Any) -> None:
    there = town.zeta.client.request(method, path.format(SECRET), json=body)
    nowhere = town.zeta.client.request(method, path.format(ABSENT), json=body)
    assert refusal(there) == (404, "unknown-model")
    assert there.json()["detail"] == f"there is no model '{SECRET}'"
    assert same_but_for_the_name(there, nowhere)


def test_no_route_with_a_model_in_its_path_is_forgotten(town: Town) -> None:
    document = town.owner.get("/openapi.json").json()
    routes = [
        (method, path)
        for path in document["paths"]
        if "{model}" in path
        for method in document["paths"][path]
    ]
    assert len(routes) > 20
    for method, path in routes:
        if path.rpartition("/")[2] in ("predict", "feedback", "learn", "stream"):
            continue  # they check the model with the ids; see below
        asked = path.replace("{model}", SECRET).replace("{challenger}", "c")
        answer = town.zeta.client.request(method.upper(), asked, json={})
        code = "forbidden" if (method, path) == ("put", "/models/{model}") else "unknown-model"
        assert answer.json()["code"] == code, (method, path)


def test_one_s_own_absent_models_look_the_same(town: Town) -> None:
    other, own = town.zeta.get(f"/models/{SECRET}"), town.zeta.get("/models/zeta-nothing")
    assert other.text.replace(SECRET, "?") == own.text.replace("zeta-nothing", "?")


@pytest.mark.parametrize("model", [SECRET, ABSENT, "zeta", "Zeta-x", "x-zeta-"])
def test_making_and_teaching_models_outside_is_forbidden_alike(town: Town, model: str) -> None:
    zeta = town.zeta
    exported = good(zeta.get("/models/zeta-own/export"))
    tries = [
        zeta.predict(model, [1.0, 2.0]),
        zeta.predict(model, [1.0], id="mine"),
        zeta.predict(model, {}),
        zeta.predict(model, [1.0, 2.0], dry=True),
        zeta.learn(model, [1.0, 2.0], 1),
        zeta.learn(model, [1.0, 2.0], "no such label", id="mine"),
        zeta.post("/models", {"model": model}),
        zeta.client.put(f"/models/{model}", json=exported),
        zeta.post("/models/zeta-own/fork", {"as": model}),
    ]
    for answer in tries:
        assert refusal(answer) == (403, "forbidden")
        assert answer.json()["detail"] == "this API key is limited to models whose names begin with 'zeta-'"
    assert refusal(town.owner.get(f"/models/{model}")) == (404, "unknown-model") if model != SECRET else True


def test_a_history_has_ids_as_their_tenant_knows_them(town: Town) -> None:
    def ids(holder: Holder) -> list[str | None]:
        lines = holder.get(f"/models/{SECRET}/history").text.splitlines()
        return [json.loads(line)["prediction_id"] for line in lines]

    assert "order-18" in ids(town.acme) and "acme-/order-18" in ids(town.owner)
    table = pa.ipc.open_stream(town.acme.get(f"/models/{SECRET}/history?format=arrow").content).read_all()
    assert table["prediction_id"].to_pylist() == ids(town.acme)


def test_what_waits_has_ids_as_their_tenant_knows_them(town: Town) -> None:
    good(town.zeta.predict("zeta-waits", [1.0], id="order-20"))

    def ids(holder: Holder) -> list[str]:
        page = good(holder.get("/models/zeta-waits/pending"))
        return [each["prediction_id"] for each in page["pending"]]

    assert ids(town.zeta) == ["order-20"] and ids(town.owner) == ["zeta-/order-20"]
    good(town.zeta.reveal("order-20", 1))
    assert ids(town.zeta) == []
    assert town.zeta.client.delete("/models/zeta-waits").status_code == 204


def test_a_fork_that_was_given_does_not_tell_whose_it_was(town: Town) -> None:
    good(town.owner.post(f"/models/{SECRET}/fork", {"as": "zeta-gift"}))
    (first,) = good(town.zeta.get("/models/zeta-gift/events"))["events"]
    assert first["forked_from"] is None
    assert good(town.owner.get("/models/zeta-gift/events"))["events"][0]["forked_from"] == SECRET
    assert town.zeta.client.delete("/models/zeta-gift").status_code == 204


def test_lists_totals_and_their_etags_know_only_one_s_own(town: Town) -> None:
    acme, zeta, owner = town.acme, town.zeta, town.owner
    for sort in ("name", "rounds", "error_rate", "mistakes", "updated_at"):
        seen = good(zeta.get(f"/stats?sort={sort}"))
        assert [line["model"] for line in seen["models"]] == ["zeta-own"] and seen["next"] is None
        assert seen["totals"]["models"] == 1 and seen["totals"]["rounds"]["revealed"] == 1
    assert [line["model"] for line in good(zeta.get("/models"))["models"]] == ["zeta-own"]
    for prefix in ("acme-", "acme", "a", SECRET, "zeta-ow/", "y"):
        seen = good(zeta.get(f"/stats?model={prefix}"))
        assert seen["models"] == [] and seen["next"] is None
        assert seen["totals"] == good(zeta.get("/stats?model=zeta-none"))["totals"]
        assert good(zeta.get(f"/models?model={prefix}"))["models"] == []
    for prefix in ("", "z", "zeta-", "zeta-o"):
        assert [line["model"] for line in good(zeta.get(f"/stats?model={prefix}"))["models"]] == ["zeta-own"]
    assert {line["model"] for line in good(owner.get("/stats"))["models"]} >= {SECRET, "zeta-own"}
    # Cursors and ETags of somebody else open nothing.
    cursor = good(owner.get("/stats?limit=1"))["next"]
    seen = zeta.get(f"/stats?cursor={cursor}")
    assert [line["model"] for line in good(seen)["models"]] == ["zeta-own"]
    assert good(zeta.get("/models?cursor=acme-"))["models"][0]["model"] == "zeta-own"
    for path in ("/stats", f"/stats/{SECRET}"):
        etag = acme.get(path).headers["etag"]
        assert acme.client.get(path, headers={"if-none-match": etag}).status_code == 304
        asked = zeta.client.get(path, headers={"if-none-match": etag})
        assert asked.status_code == (200 if path == "/stats" else 404)
        assert zeta.client.get(f"/stats/{SECRET}", headers={"if-none-match": "*"}).status_code == 404


def test_metrics_are_of_one_s_own_models_and_of_nothing_shared(town: Town) -> None:
    seen = town.zeta.get("/metrics").text
    assert set(re.findall(r'model="([^"]*)"', seen)) == {"zeta-own"}
    assert "novikoff_models_loaded 1.0" in seen and "novikoff_pending 0.0" in seen
    names = set(re.findall(r"^([a-z_]+)", seen, re.MULTILINE))
    assert all(re.match(r"novikoff_(info|models_loaded|pending|model_\w+)$", name) for name in names)
    everything = town.owner.get("/metrics").text
    assert SECRET in everything and "novikoff_request_seconds" in everything


def frames_of(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield event, json.loads(line.removeprefix("data: "))


def test_the_feed_tells_of_one_s_own_changes_only(town: Town) -> None:
    acme, zeta, owner = town.acme, town.zeta, town.owner
    with zeta.client.stream("GET", "/feed") as mine, owner.client.stream("GET", "/feed") as all_of_them:
        frames, others = frames_of(mine), frames_of(all_of_them)
        kind, data = next(frames)
        assert kind == "snapshot" and [line["model"] for line in data["models"]] == ["zeta-own"]
        assert data["totals"]["models"] == 1
        next(others)
        good(acme.predict("acme-brief", [1.0]))
        assert [line["model"] for line in next(others)[1]["models"]] == ["acme-brief"]
        assert acme.client.delete("/models/acme-brief").status_code == 204
        gone = next(
            data["deleted"] for _, data in others if data["deleted"]
        )  # one of the prediction may come first
        assert gone == ["acme-brief"]
        good(zeta.learn("zeta-own", [1.0], 1))
        kind, data = next(frames)  # the first since the snapshot, though two were sent to others
        assert kind == "changes" and [line["model"] for line in data["models"]] == ["zeta-own"]
        assert data["deleted"] == [] and data["totals"]["models"] == 1
        assert "acme" not in json.dumps(data)


# Predictions


def test_predictions_of_others_were_never_heard_of(town: Town) -> None:
    """Waiting, revealed, revealed with another label, chosen or made: all the same as an id of nobody's."""
    stranger = "0" * 4 + town.waiting[4:]  # of the same form, but nobody's
    fresh = town.waiting[:13] + "0" * 20
    for prediction_id in (town.waiting, town.revealed, town.chosen, "order-18", "nobody-s", fresh):
        for label in (1, -1, "no such label"):
            answer = town.zeta.reveal(prediction_id, label)
            assert refusal(answer) == (404, "unknown-prediction"), prediction_id
            assert answer.json()["detail"] == f"there is no prediction '{prediction_id}'"
            assert "idempotent-replay" not in answer.headers
        for method, path in (("PUT", "/feedback/{}"), ("DELETE", "/predictions/{}")):
            body = {"label": 1} if method == "PUT" else None
            answer = town.zeta.client.request(method, path.format(prediction_id), json=body)
            assert refusal(answer) == (404, "unknown-prediction"), (method, prediction_id)
            assert answer.json()["detail"] == f"there is no prediction '{prediction_id}'"
    assert refusal(town.zeta.reveal(stranger, 1)) == (410, "prediction-expired")  # by its time alone
    assert refusal(town.zeta.reveal("acme-/order-17", 1)) == (404, "unknown-prediction")


def test_corrections_of_one_s_own_have_the_ids_that_one_knows(town: Town) -> None:
    zeta = town.zeta
    good(zeta.learn("zeta-corrected", [1.0], 1, id="order-38"))
    good(zeta.predict("zeta-corrected", [1.0], id="order-37"))
    told = zeta.client.put("/feedback/order-38", json={"label": -1}).json()
    assert (told["prediction_id"], told["model"]) == ("order-38", "zeta-corrected")
    assert zeta.client.delete("/predictions/order-37").json()["prediction_id"] == "order-37"
    assert refusal(zeta.client.put("/feedback/order-37", json={"label": 1})) == (410, "prediction-void")
    assert "zeta-/" not in zeta.client.put("/feedback/order-37", json={"label": 1}).text
    trail = good(zeta.get("/models/zeta-corrected/events"))["events"]
    assert {each["prediction_id"] for each in trail if "prediction_id" in each} == {"order-37", "order-38"}
    assert zeta.client.delete("/models/zeta-corrected").status_code == 204


def test_expired_predictions_of_others_were_never_heard_of_either(start: Start) -> None:
    acme, zeta = Holder("acme", "admin", "acme-"), Holder("zeta", "admin", "zeta-")
    service = start(pending_max=2, api_keys=lines_of(acme, zeta))
    acme.at(service)
    zeta.at(service)
    pushed_out = good(acme.predict(SECRET, [1.0]))["prediction_id"]
    good(acme.predict(SECRET, [1.0], id="order-1"))
    good(acme.predict(SECRET, [1.0], id="order-2"))
    assert refusal(acme.reveal(pushed_out, 1)) == (410, "prediction-expired")
    assert refusal(zeta.reveal(pushed_out, 1)) == (404, "unknown-prediction")
    good(acme.post(f"/models/{SECRET}/reset", None))
    service.restart()
    acme.at(service)
    zeta.at(service)
    for prediction_id in ("order-1", "order-2"):
        assert refusal(acme.reveal(prediction_id, 1)) == (410, "prediction-expired")
        assert refusal(zeta.reveal(prediction_id, 1)) == (404, "unknown-prediction")
    assert refusal(zeta.reveal(pushed_out, 1)) == (404, "unknown-prediction")


def test_two_tenants_may_choose_the_same_id_and_never_find_out(town: Town) -> None:
    zeta, acme = town.zeta, town.acme
    other_features = [7.0]
    as_in_0_1_0 = town.waiting.replace("~", "")
    for prediction_id in ("order-27", "order-28", as_in_0_1_0, "drift:acme-secret:1:0:1"):
        served = good(zeta.predict("zeta-ids", other_features, id=prediction_id))
        assert served["prediction_id"] == prediction_id
        assert good(zeta.predict("zeta-ids", other_features, id=prediction_id)) == served
        answer = zeta.predict("zeta-ids", [8.0], id=prediction_id)
        assert refusal(answer) == (409, "prediction-id-taken")  # by their own
        assert answer.json()["detail"].startswith(f"the id '{prediction_id}' was already used")
        revealed = good(zeta.reveal(prediction_id, -1))
        assert (revealed["prediction_id"], revealed["model"]) == (prediction_id, "zeta-ids")
        again = zeta.reveal(prediction_id, -1)
        assert again.headers["idempotent-replay"] == "true" and good(again) == revealed
        conflict = zeta.reveal(prediction_id, 1)
        assert refusal(conflict) == (409, "feedback-conflict")
        said = (
            f"'{prediction_id}' was already revealed with label -1; PUT /feedback/{prediction_id} corrects it"
        )
        assert conflict.json()["detail"] == said
    learned = good(zeta.learn("zeta-ids", [9.0], 1, id="order-19"))
    assert good(zeta.learn("zeta-ids", [9.0], 1, id="order-19")) == learned
    assert learned["prediction_id"] == "order-19"
    ids = {event.get("prediction_id") for event in good(zeta.get("/models/zeta-ids/events"))["events"]}
    assert {"order-27", "order-28", "order-19"} <= ids and not any("/" in each for each in ids if each)
    # The owner of the house tells them apart, and can reveal both.
    kept = good(town.owner.get(f"/models/{SECRET}/events"))["events"]
    assert "acme-/order-28" in {event.get("prediction_id") for event in kept}
    assert refusal(town.owner.predict("zeta-ids", [1.0], id="acme-/x")) == (422, "invalid-request")
    assert good(acme.predict(SECRET, [1.0, 4.0], id="order-27"))["prediction_id"] == "order-27"


def test_ids_of_the_services_form_are_refused_alike_whoever_has_them(town: Town) -> None:
    for prediction_id in (town.waiting, town.revealed, town.waiting[:13] + "0" * 20):
        answer = town.zeta.predict("zeta-ids", [7.0], id=prediction_id)
        assert refusal(answer) == (422, "invalid-request")
        assert answer.json()["errors"][0]["field"] == "id" and "acme" not in answer.text


def test_a_prediction_that_0_1_0_made_for_a_tenant_is_revealed_by_it(town: Town) -> None:
    """Its id is one of 32 hexadecimal digits, kept without the tenant's prefix."""
    made = good(town.owner.predict("zeta-older", [1.0], id=f"{1:012x}" + "5" * 20))["prediction_id"]
    assert refusal(town.acme.reveal(made, 1)) == (404, "unknown-prediction")
    assert good(town.zeta.reveal(made, 1))["rounds"] == 1


def test_who_has_no_limit_shares_predictions_with_those_who_have(town: Town) -> None:
    owner, zeta = town.owner, town.zeta
    made = good(owner.predict("zeta-shared", [1.0]))["prediction_id"]
    chosen = good(owner.predict("zeta-shared", [1.0], id="owners-own"))["prediction_id"]
    theirs = good(zeta.predict("zeta-shared", [1.0]))["prediction_id"]
    assert good(zeta.reveal(made, 1))["rounds"] == 1
    assert good(zeta.reveal(chosen, 1))["prediction_id"] == "owners-own"
    assert good(owner.reveal(theirs, 1))["rounds"] == 3
    good(zeta.predict("zeta-shared", [1.0], id="theirs"))
    assert good(owner.reveal("zeta-/theirs", 1))["rounds"] == 4


def test_a_strict_model_names_the_prediction_as_its_owner_knows_it(town: Town) -> None:
    good(town.zeta.post("/models", {"model": "zeta-strict", "protocol": "strict"}))
    good(town.zeta.predict("zeta-strict", [1.0], id="first"))
    answer = town.zeta.predict("zeta-strict", [1.0])
    assert refusal(answer) == (409, "reveal-first") and "'first'" in answer.json()["detail"]


# Many at once


def test_items_and_lines_are_told_apart_one_by_one(town: Town) -> None:
    zeta = town.zeta
    items = [{"model": model, "features": [1.0, 2.0]} for model in ("zeta-many", SECRET, "zeta-many", ABSENT)]
    answers = good(zeta.post("/predict", {"items": items}))["items"]
    assert [a.get("model") or a["error"]["code"] for a in answers] == [
        "zeta-many", "forbidden", "zeta-many", "forbidden",
    ]  # fmt: skip
    items = [{**item, "label": 1} for item in items]
    answers = good(zeta.post("/learn", {"items": items}))["items"]
    assert ["error" in a for a in answers] == [False, True, False, True]
    ids = [*town.others, "order-16", "nobody-s"]
    answers = good(zeta.post("/feedback", {"items": [{"prediction_id": i, "label": 1} for i in ids]}))[
        "items"
    ]
    assert [a["error"]["code"] for a in answers] == ["unknown-prediction"] * 4
    lines = [
        *items,
        *({"model": m, "features": [1.0, 2.0]} for m in (SECRET, ABSENT)),
        *({"prediction_id": i, "label": 1} for i in ids),
        {"model": SECRET, "features": [1.0, 5.0], "label": 1, "id": "order-18"},
        {"model": "zeta-many", "features": [1.0, 2.0], "id": "order-16"},
    ]
    answer = zeta.stream("\n".join(map(json.dumps, lines)).encode())
    told = [line.get("prediction_id") or line.get("model") or line["error"]["code"]
            for line in map(json.loads, answer.text.splitlines())]  # fmt: skip
    assert told == [
        "zeta-many", "forbidden", "zeta-many", "forbidden", "forbidden", "forbidden",
        *["unknown-prediction"] * 4, "forbidden", "order-16",
    ]  # fmt: skip
    by_query = zeta.stream(b'{"features": [1.0, 2.0], "label": 1}', f"?model={SECRET}")
    assert json.loads(by_query.text)["error"]["code"] == "forbidden"
    summary = zeta.stream(b'{"features": [1.0, 2.0], "label": 1}', f"?model={SECRET}&answers=summary")
    assert good(summary)["errors"] == 1


def test_the_model_in_the_path_opens_no_way_to_others(town: Town) -> None:
    zeta = town.zeta
    for route, body in {
        "predict": {"features": [1.0, 2.0]},
        "learn": {"features": [1.0, 2.0], "label": 1},
    }.items():
        theirs, nobody = (zeta.post(f"/models/{model}/{route}", body) for model in (SECRET, ABSENT))
        assert refusal(theirs) == (403, "forbidden") and same_but_for_the_name(theirs, nobody)
    for model in (SECRET, ABSENT, "zeta-own"):
        for theirs in (town.waiting, town.revealed, "order-16", "nobody-s"):
            answer = zeta.post(f"/models/{model}/feedback", {"prediction_id": theirs, "label": 1})
            assert refusal(answer) == (404, "unknown-prediction")
    lines = [{"features": [1.0, 2.0], "label": 1}, {"prediction_id": town.waiting, "label": 1}]
    headers = {"content-type": "application/x-ndjson"}
    content = "\n".join(map(json.dumps, lines))
    answer = zeta.client.post(f"/models/{SECRET}/stream", content=content, headers=headers)
    told = [json.loads(line)["error"]["code"] for line in answer.text.splitlines()]
    assert told == ["forbidden", "unknown-prediction"]
    own = {"features": [1.0], "id": "visit-by-path"}
    assert good(zeta.post("/models/zeta-path/predict", own))["prediction_id"] == "visit-by-path"
    reveal = {"prediction_id": "visit-by-path", "label": 1}
    assert refusal(zeta.post("/models/zeta-own/feedback", reveal)) == (404, "unknown-prediction")
    assert good(zeta.post("/models/zeta-path/feedback", reveal))["prediction_id"] == "visit-by-path"


def test_arrow_streams_go_to_one_s_own_models_only(town: Town) -> None:
    batch = pa.record_batch({"a": [1.0, 2.0], "b": [0.0, 1.0], "label": [1, -1]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}

    def send(model: str) -> httpx.Response:
        return town.zeta.client.post(f"/stream?model={model}", content=sink.getvalue(), headers=headers)

    assert refusal(send(SECRET)) == refusal(send(ABSENT)) == (403, "forbidden")
    assert good(send("zeta-arrow"))["revealed"] == 2


# Jobs, and moving models


@pytest.mark.slow
def test_jobs_of_others_were_never_heard_of(town: Town) -> None:
    body = {"source": "history", "passes_max": 2}
    good(town.acme.predict("acme-fitted", [1.0]))
    good(town.acme.learn("acme-fitted", [1.0], 1))
    good(town.acme.learn("acme-fitted", [-1.0], -1))
    job = good(town.acme.post("/models/acme-fitted/fit", body))["id"]
    for method in ("GET", "DELETE"):
        theirs = town.zeta.client.request(method, f"/jobs/{job}")
        nobody = town.zeta.client.request(method, f"/jobs/{job[::-1]}")
        assert refusal(theirs) == (404, "unknown-job")
        assert theirs.text.replace(job, "?") == nobody.text.replace(job[::-1], "?")
    assert good(town.acme.get(f"/jobs/{job}"))["state"] in ("running", "done")
    assert town.acme.client.delete("/models/acme-fitted").status_code == 204


def test_an_export_of_somebody_else_s_model_can_only_become_one_s_own(town: Town) -> None:
    exported = good(town.acme.get(f"/models/{SECRET}/export"))  # say, it was mailed
    assert refusal(town.zeta.client.put(f"/models/{SECRET}", json=exported)) == (403, "forbidden")
    assert town.zeta.client.put("/models/zeta-copy", json=exported).status_code == 201
    events = town.zeta.get("/models/zeta-copy/events").text
    assert SECRET not in events and "order-1" not in events


def test_a_name_that_only_looks_like_the_prefix_is_outside(town: Town) -> None:
    for name in ("zeta", "ZETA-x", "zeta\u2010x", "zeta-/../acme-secret", "zeta-%2e%2e", "\u200bzeta-x"):
        assert town.zeta.predict(name, [1.0]).status_code in (403, 422)
    assert town.zeta.get("/models/zeta-%2F..%2Facme-secret").status_code in (404, 422)
    assert town.zeta.get("/models/zeta-/../acme-secret").status_code in (404, 422)
