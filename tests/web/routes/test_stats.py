"""/stats over HTTP: the same numbers as the rounds, for one model and for all."""

import asyncio
import subprocess
from collections.abc import Callable

import httpx
import msgspec
import pytest

from novikoff.schemas import Stats
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True


def test_the_statistics_are_those_of_the_rounds(service: Service, name: str) -> None:
    service.create(name, labels=["no", "yes"], declared_margin=0.1)
    truths, served = [], []
    for i in range(60):
        truth = "yes" if (i * 7) % 5 < 2 else "no"
        outcome = service.learn(name, [1.0 if truth == "yes" else -1.0, 0.1 * (i % 3)], truth)
        truths.append(truth)
        served.append(outcome["predicted"])
    for _ in range(3):
        service.predict(name, [1.0, 1.0])
    stats = service.stats(name)
    msgspec.convert(stats, Stats)
    mistakes = sum(a != b for a, b in zip(truths, served, strict=True))
    assert stats["rounds"] == {"predicted": 63, "revealed": 60, "pending": 3, "expired": 0}
    assert (stats["mistakes"], stats["updates"], stats["error_rate"]) == (mistakes, mistakes, mistakes / 60)
    assert stats["windows"]["last_100"] == {"rounds": 60, "mistakes": mistakes, "error_rate": mistakes / 60}
    assert stats["windows"]["day"]["rounds"] == 60
    labels = ["no", "yes"]
    matrix = [
        [sum((t, s) == (row, column) for t, s in zip(truths, served, strict=True)) for column in labels]
        for row in labels
    ]
    assert stats["confusion"] == {"labels": labels, "matrix": matrix}
    assert [c["support"] for c in stats["classes"]] == [truths.count(label) for label in labels]
    assert stats["bound"]["verdict"] == "within" and stats["bound"]["gamma_source"] == "declared"
    assert stats["curve"]["rounds"][-1] == 60 and stats["curve"]["mistakes"][-1] == mistakes
    service.assert_replay_equals_live(name)


def test_statistics_survive_a_restart_unchanged(start: Callable[..., Service], journal: str) -> None:
    service = start(snapshot_every_events=7)
    first_late = service.predict("m", [0.0, 1.0])["prediction_id"]
    for i in range(50):
        service.learn("m", [1.0, float(i % 4)], 1 if i % 3 else -1)
        late = service.predict("m", [float(i), 1.0])["prediction_id"]
        if i % 2:
            service.reveal(late, 1)
    before = service.stats("m")
    for stop in (service.stop, service.kill):
        stop()
        service.start()
        after = service.stats("m")
        for clock in ("minute", "hour", "day"):  # time goes on
            before["windows"][clock] = after["windows"][clock]
        if journal == "jetstream" and stop == service.kill:
            # What a killed replica has served can be revealed, but nobody counts it as waiting.
            before["rounds"] |= {"pending": 0, "predicted": before["rounds"]["revealed"]}
            before["unlabelled"] = after["unlabelled"]
        assert after == before
    assert service.reveal(first_late, 1)["rounds"] == before["rounds"]["revealed"] + 1
    service.assert_replay_equals_live("m")


def test_new_models_have_nulls_where_there_is_nothing_to_divide_by(service: Service, name: str) -> None:
    service.create(name)
    stats = service.stats(name)
    assert stats["error_rate"] is None and stats["ewma_error_rate"] is None
    assert stats["windows"]["minute"] == {"rounds": 0, "mistakes": 0, "error_rate": None}
    assert set(stats["baselines"].values()) == {None}
    assert stats["delay"]["seconds"]["p50"] is None
    assert stats["bound"]["verdict"] == "unknown"


def test_the_bound_says_why_it_does_not_apply(service: Service, name: str) -> None:
    service.create(f"{name}a", learner={"rule": "margin"})
    service.create(f"{name}b", learner={"schedule": "inverse"})
    for model in (f"{name}a", f"{name}b"):
        service.learn(model, [1.0], -1)
        bound = service.stats(model)["bound"]
        assert bound["verdict"] == "not_applicable" and bound["why"]


def test_a_margin_that_the_stream_does_not_have_is_exceeded(service: Service, name: str) -> None:
    service.create(name, declared_margin=0.5)
    for i in range(200):
        service.learn(name, [1.0], 1 if i % 2 else -1)
    bound = service.stats(name)["bound"]
    assert bound["verdict"] == "exceeded" and bound["margin_ceiling"] < 0.5


def test_the_page_of_all_models_is_sorted_and_paged(service: Service, name: str) -> None:
    mistakes = {f"{name}.{i}": n for i, n in enumerate([3, 0, 5, 3])}
    for model, count in mistakes.items():
        for i in range(6):
            wrong = service.predict(model, [1.0])["label"] * (-1 if i < count else 1)
            service.learn(model, [1.0], wrong)
    expected = {
        "name": sorted(mistakes),
        "mistakes": sorted(mistakes, key=lambda m: (-mistakes[m], m)),
        "error_rate": sorted(mistakes, key=lambda m: (-mistakes[m], m)),
        "rounds": sorted(mistakes),
        "updated_at": sorted(mistakes, reverse=True),
    }
    for sort, order in expected.items():
        seen: list[str] = []
        query = f"/stats?model={name}.&sort={sort}&limit=3&fields=mistakes"
        page = service.get(query)
        seen += [line["model"] for line in page["models"]]
        page = service.get(f"{query}&cursor={page['next']}")
        seen += [line["model"] for line in page["models"]]
        assert (seen, page["next"]) == (order, None), sort
        assert all(line.keys() == {"model", "mistakes"} for line in page["models"])
    totals = service.get(f"/stats?model={name}.")["totals"]
    assert totals["models"] == 4 and totals["mistakes"] == 11
    assert totals["rounds"] == {"predicted": 48, "revealed": 24, "pending": 24, "expired": 0}


@pytest.mark.parametrize(
    "query", ["sort=colour", "fields=colour", "cursor=!!!", "cursor=e30", "limit=0", "cursor=WzEsMl0="]
)
def test_bad_questions_are_refused(service: Service, query: str) -> None:
    assert problem_of(service.client.get(f"/stats?{query}")) == (422, "invalid-request")


def test_totals_and_order_are_right_after_a_crash(start: Callable[..., Service]) -> None:
    service = start(models_loaded_max=2)
    for i in range(5):
        for _ in range(i + 1):
            service.learn(f"m{i}", [1.0], 1)
    service.kill()
    service.start()
    page = service.get("/stats?sort=rounds&fields=rounds")
    assert [line["rounds"]["revealed"] for line in page["models"]] == [5, 4, 3, 2, 1]
    assert page["totals"]["rounds"]["revealed"] == 15


def test_an_answer_that_has_not_changed_is_not_sent_again(service: Service, name: str) -> None:
    service.create(name)
    for path in (f"/stats/{name}", f"/stats?model={name}"):
        first = service.client.get(path)
        again = service.client.get(path, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
        assert (
            again.status_code == 304
            and again.content == b""
            and again.headers["etag"] == first.headers["etag"]
        )
    service.learn(name, [1.0], 1)
    for path in (f"/stats/{name}", f"/stats?model={name}"):
        assert service.client.get(path, headers={"if-none-match": first.headers["etag"]}).status_code == 200


def test_the_audit_trail_tells_what_happened(service: Service, name: str) -> None:
    service.create(name)
    prediction_id = service.predict(name, [1.0])["prediction_id"]
    service.reveal(prediction_id, -1)
    service.learn(name, [1.0], 1)
    service.client.post(f"/models/{name}/reset")
    page = service.get(f"/models/{name}/events?limit=3")
    assert [event["kind"] for event in page["events"]] == ["created", "dimension", "revealed"]
    assert page["events"][2]["prediction_id"] == prediction_id and page["events"][2]["label"] == -1
    assert "features" not in page["events"][2]
    page = service.get(f"/models/{name}/events?cursor={page['next']}")
    assert [event["kind"] for event in page["events"]] == ["learned", "reset"] and page["next"] is None


@pytest.mark.slow
def test_a_drift_is_found_and_stands_in_the_audit_trail(service: Service, name: str) -> None:
    service.create(name, learner={"eta0": 1e-3}, bias=False)
    rounds = 0
    for label in (1, -1):  # the world turns round, and the model learns slowly
        for _ in range(300):
            service.learn(name, [1.0 if rounds % 2 else -1.0], label if rounds % 2 else -label)
            rounds += 1
            if label < 0:
                service.learn(name, [1.0], 1)
                service.learn(name, [1.0], 1)
    stats = service.stats(name)
    assert stats["drift"]["count"] >= 1 and stats["drift"]["last_round"] > 300
    page = service.get(f"/models/{name}/events?limit=1000&cursor=0")
    events = page["events"]
    while page["next"]:
        page = service.get(f"/models/{name}/events?limit=1000&cursor={page['next']}")
        events += page["events"]
    drifts = [event for event in events if event["kind"] == "drift"]
    assert len(drifts) == stats["drift"]["count"] and drifts[-1]["round"] == stats["drift"]["last_round"]
    service.assert_replay_equals_live(name)


def test_a_model_without_a_reveal_has_no_time_of_its_last_one(start: Callable[..., Service]) -> None:
    service = start()
    service.predict("m", [1.0])
    assert "novikoff_model_last_reveal_timestamp_seconds{" not in service.client.get("/metrics").text
    service.learn("m", [1.0], 1)
    assert 'novikoff_model_last_reveal_timestamp_seconds{model="m"}' in service.client.get("/metrics").text


def test_the_metrics_are_right_and_well_formed(start: Callable[..., Service]) -> None:
    service = start(metrics_models_max=2)
    for model, rounds in (("a", 1), ("b", 3), ("c", 2)):
        for _ in range(rounds):
            service.learn(model, [1.0], -1)
    service.predict("b", [1.0])
    service.refused("/predict", {})
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    metrics = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
               for line in answer.text.splitlines() if not line.startswith("#")}  # fmt: skip
    assert metrics['novikoff_model_revealed_total{model="b"}'] == 3
    assert metrics['novikoff_model_mistakes_total{model="c"}'] == 1
    assert metrics['novikoff_model_pending{model="b"}'] == 1
    assert 'novikoff_model_revealed_total{model="a"}' not in metrics
    assert metrics['novikoff_request_seconds_count{method="POST",route="/learn",status="200"}'] == 6
    assert metrics['novikoff_request_seconds_count{method="POST",route="/predict",status="422"}'] == 1
    assert metrics["novikoff_journal_commit_seconds_count"] >= 6
    assert metrics["novikoff_models_loaded"] == 3
    assert metrics["process_resident_memory_bytes"] > 0
    try:
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=answer.text, capture_output=True, text=True
        )
    except FileNotFoundError:
        print("promtool is not installed: not checked by it")
    else:
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_totals_are_right_however_many_ask(service: Service, name: str) -> None:
    async def ask_often(rounds: int) -> None:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            answers = await asyncio.gather(
                *(client.get(f"/stats?model={name}&fields=rounds") for _ in range(6))
            )
        assert [a.json()["totals"]["rounds"]["revealed"] for a in answers] == [rounds] * 6

    for rounds in range(1, 21):
        service.learn(name, [1.0], 1)
        asyncio.run(ask_often(rounds))
