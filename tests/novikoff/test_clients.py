"""What a client promises, for both of them."""

import inspect
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import fields

from novikoff import AsyncClient, Client, Refused, Unreachable
from novikoff.calls import make_id
from novikoff.lines import CHUNK_LINES
from novikoff.schemas import Learned, Outcome, Prediction, Stats, StatsLine
from tests.novikoff.conftest import Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.ports import free_ports
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS


def test_a_round_over_the_client_is_the_same_round(client: Any, service: Service, name: str) -> None:
    prediction = client.predict(name, [1.0, 2.0], explain=1)
    assert (prediction.model, prediction.label, prediction.score, prediction.version) == (name, 1, 0.0, 0)
    assert len(prediction.explanation) == 1 and prediction.explanation[0].weight == 0.0
    outcome = client.feedback(prediction.prediction_id, -1)
    assert (outcome.predicted, outcome.label, outcome.mistake, outcome.rounds) == (1, -1, True, 1)
    learned = client.learn(name, [1.0, 2.0], -1)
    assert (learned.score, learned.mistake, learned.rounds, learned.mistakes) == (-6.0, False, 2, 1)
    assert client.predict(name, [1.0, 2.0], min_version=learned.version).version == learned.version
    stats = client.stats(name)
    assert (stats.rounds.revealed, stats.mistakes, stats.error_rate) == (2, 1, 0.5)
    assert stats.confusion.matrix == [[1, 1], [0, 0]] and isinstance(stats.created_at, datetime)
    assert client.weights(name).classes[0].weights == [-1.0, -2.0]
    service.assert_replay_equals_live(name)


def test_the_typed_statistics_have_every_field_there_is(client: Any, service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    assert {field.name for field in fields(Stats)} - {"learner_curves"} == service.stats(name).keys()
    assert client.stats(name).learner_curves is UNSET  # told only by `stats_fields`
    assert client.stats_fields(name, "learner_curves") == {"model": name, "learner_curves": None}
    assert {field.name for field in fields(StatsLine)} <= service.stats(name).keys()
    for part in ("windows", "confusion", "baselines", "delay", "drift", "bound", "curve", "features"):
        typed = getattr(client.stats(name), part)
        assert {field.name for field in fields(typed)} >= service.stats(name)[part].keys(), part


def test_the_life_of_a_model(client: Any, name: str) -> None:
    made = client.create_model(name, labels=["no", "yes"], learner={"rule": "margin"})
    assert made.settings["labels"] == ["no", "yes"] and made.features_kind == "dense"
    assert client.get_model(name) == made
    assert client.learn(name, [1.0], "no").rounds == 1
    assert client.reset_model(name).version == 2
    assert client.stats(name).rounds.revealed == 0
    assert client.delete_model(name) is None
    with pytest.raises(Refused) as refused:
        client.get_model(name)
    assert (refused.value.code, refused.value.status) == ("unknown-model", 404)


def test_older_versions_are_asked_for_gone_back_to_and_forked(client: Any, name: str) -> None:
    for label in (1, -1, 1):
        client.learn(name, [1.0, 2.0], label)
    assert client.weights(name, at=0).classes[0].weights == [0.0, 0.0]
    assert client.stats(name, at=1).rounds.revealed == 1
    assert client.fork_model(name, f"{name}-fork", at=2).version == 2
    assert client.fork_model(name, f"{name}-now").version == 3
    assert client.rollback_model(name, 1).version == 4
    assert client.weights(name).classes == client.weights(name, at=1).classes
    assert client.export_model(name, at=2) != client.export_model(name)
    client.learn(f"{name}-fork", [1.0, 2.0], 1)
    with pytest.raises(Refused) as refused:
        client.stats(f"{name}-fork", at=1)
    assert (refused.value.code, refused.value.status) == ("version-gone", 410)


@pytest.mark.slow
def test_the_history_comes_round_by_round(client: Any, name: str) -> None:
    answers = [client.learn(name, {"a": float(i), "b": 1.0}, 1 if i % 2 else -1) for i in range(300)]
    rounds = list(client.history(name))
    assert [one.version for one in rounds] == list(range(1, 301))
    assert [(one.served, one.score) for one in rounds] == [(one.predicted, one.score) for one in answers]
    assert rounds[7].features == {"a": 7.0, "b": 1.0}
    assert list(client.history(name, from_version=5, since=rounds[6].at, until=rounds[8].at)) == rounds[6:8]
    assert len(b"".join(client.history_bytes(name, to_version=3)).splitlines()) == 3
    with pytest.raises(Refused) as refused:
        list(client.history(f"{name}-none"))
    assert refused.value.code == "unknown-model"


def test_the_history_comes_as_a_table(client: Any, name: str) -> None:
    for model, features in ((f"{name}.named", {"a": 3.0, "from": "ann"}), (f"{name}.dense", [3.0, 1.0])):
        client.learn(model, features, -1)
        client.learn(model, features, 1, tag="x")
        table = client.history_table(model)
        parts = [column for column in table.columns if column.startswith("features.")]
        named = isinstance(features, dict)
        assert parts == (["features.a", "features.from=ann"] if named else ["features.0", "features.1"])
        assert table[parts].to_numpy().tolist() == [[3.0, 1.0]] * 2
        assert table["label"].tolist() == [-1, 1] and table["version"].tolist() == [1, 2]
        assert table["mistake"].sum() == 2 and table["at"].is_monotonic_increasing
        empty = client.history_table(model, from_version=3)
        assert len(empty) == 0 and {"label", "features"} <= {*empty.columns}


def test_statistics_are_a_table_in_a_notebook(client: Any, name: str) -> None:
    client.create_model(name, labels=["<b>", "b"])
    client.learn(name, [1.0], "<b>")
    shown = client.stats(name)._repr_html_()
    assert f"<th>model</th><td>{name}</td>" in shown and "<th>rounds.revealed</th><td>1</td>" in shown
    assert "<th>error_rate</th><td>1.0</td>" in shown and "<th>bound.verdict</th><td>unknown</td>" in shown


def test_models_are_listed_over_all_pages(client: Any, service: Service, name: str) -> None:
    names = [f"{name}.{i}" for i in range(7)]
    for each in names:
        service.create(each)
    assert [line.model for line in client.list_models(f"{name}.", page=3)] == names
    assert [line.model for line in client.list_models(f"{name}.")] == names
    assert list(client.list_models(f"{name}.nobody")) == []


def test_the_fleet_has_sums_and_lines(client: Any, name: str) -> None:
    for i, label in enumerate((1, -1, -1)):
        client.learn(f"{name}.{i % 2}", [1.0], label)
    page = client.fleet(f"{name}.", sort="mistakes", limit=1)
    assert (page.totals.models, page.totals.rounds.revealed, page.totals.mistakes) == (2, 3, 2)
    rest = client.fleet(f"{name}.", sort="mistakes", limit=1, cursor=page.next)
    assert {line.model for line in (*page.models, *rest.models)} == {f"{name}.0", f"{name}.1"}
    assert rest.next is None


@pytest.mark.parametrize("safe", [True, False])
def test_many_rounds_are_learned_in_their_order(client: Any, service: Service, name: str, safe: bool) -> None:
    examples = [([float(i % 7), float(i % 3)], 1 if i % 2 else -1) for i in range(40)]
    outcomes: list[Learned] = client.learn_many(name, iter(examples), safe=safe)
    expected = [service.learn(f"{name}.direct", *example) for example in examples]
    assert [(o.rounds, o.score, o.mistakes) for o in outcomes] == [
        (e["rounds"], e["score"], e["mistakes"]) for e in expected
    ]
    service.assert_replay_equals_live(name)


def test_many_rounds_are_learned_also_if_the_answers_are_not_read(
    client: Any, service: Service, name: str
) -> None:
    client.learn_many(name, [([1.0], 1), ([2.0], -1)])
    client.stream([{"features": [1.0], "label": 1}], model=name)
    assert service.stats(name)["rounds"]["revealed"] == 3


def test_only_reads_and_calls_named_iter_wait_until_they_are_iterated() -> None:
    reads = {"list_models", "pending", "events", "feed", "history"}
    for kind, is_lazy in ((Client, inspect.isgeneratorfunction), (AsyncClient, inspect.isasyncgenfunction)):
        lazy = {name for name, _ in inspect.getmembers(kind, is_lazy) if not name.startswith("_")}
        assert lazy == {"iter_learn", "iter_stream"} | reads


def test_an_iterator_of_rounds_sends_them_while_it_is_read(service: Service, name: str) -> None:
    taken = []

    def examples() -> Iterator[tuple[list[float], int]]:
        for number in range(3 * CHUNK_LINES):
            taken.append(number)
            yield [float(number % 5)], 1

    with Client(service.url) as client:
        outcomes = client.iter_learn(name, examples(), safe=False)
        assert not taken
        assert next(outcomes).rounds == 1
        assert len(taken) == CHUNK_LINES  # not all of what may be more than fits into memory
        assert sum(1 for _ in outcomes) == 3 * CHUNK_LINES - 1


def test_a_bad_round_among_many_is_raised_in_its_place(client: Any, name: str) -> None:
    with pytest.raises(Refused, match=r"row 1: .*; 1 of 2 rows were learned") as refused:
        client.learn_many(name, [([1.0], 1), ([1.0, 2.0], 1)])
    assert (refused.value.code, refused.value.status) == ("invalid-request", 422)
    assert refused.value.fields[0].field == "features"
    with pytest.raises(Refused) as refused:
        list(client.iter_learn(name, [([1.0], 1), ([1.0, 2.0], 1)]))
    assert refused.value.fields[0].field == "features"


def test_a_stream_answers_every_line_in_its_place(client: Any, name: str) -> None:
    lines = [
        {"features": [1.0], "id": f"{name}.0"},
        {"prediction_id": f"{name}.0", "label": -1},
        {"features": [2.0], "label": -1},
        {"features": [1.0, 2.0]},
        {"features": [1.0], "label": -1, "model": f"{name}.other"},
    ]
    predicted, revealed, learned, refused, other = client.stream(iter(lines), model=name, chunk=2)
    assert isinstance(predicted, Prediction) and predicted.prediction_id == f"{name}.0"
    assert type(revealed) is Outcome and (revealed.rounds, revealed.mistake) == (1, True)
    assert isinstance(learned, Learned) and (learned.rounds, learned.score) == (2, -3.0)
    assert isinstance(refused, Refused) and refused.code == "invalid-request"
    assert isinstance(other, Learned) and (other.model, other.rounds) == (f"{name}.other", 1)


def test_numbers_of_numpy_are_sent_as_numbers(client: Any, name: str) -> None:
    assert client.learn(name, np.array([1.0, 2.0]), np.int64(-1)).label == -1
    with pytest.raises(TypeError, match="a object cannot be sent"):
        client.learn(name, [object()], 1)


def test_a_problem_is_an_exception_with_its_code_and_fields(client: Any, name: str) -> None:
    prediction = client.predict(name, [1.0])
    client.feedback(prediction.prediction_id, 1)
    with pytest.raises(Refused) as conflict:
        client.feedback(prediction.prediction_id, -1)
    assert (conflict.value.code, conflict.value.status) == ("feedback-conflict", 409)
    with pytest.raises(Refused) as invalid:
        client.learn(name, [1.0, 2.0], 1)
    assert invalid.value.code == "invalid-request" and invalid.value.fields[0].field == "features"
    assert "features" in invalid.value.detail


def test_ids_made_by_a_client_are_never_taken_for_the_services_own(client: Any, name: str) -> None:
    # A service-made id has a ~ and begins with its time, and expires by that time.
    assert client.predict(name, [1.0]).prediction_id[0] == "c"
    assert "~" not in make_id()


# Failures


@pytest.mark.parametrize("fault", ["lost", "refused", "bad gateway"])
def test_a_round_whose_answers_are_lost_counts_once(
    connect: Connect, service: Service, name: str, fault: str
) -> None:
    with FaultyProxy(service, fault, "none", fault, "none", fault, fault) as proxy:
        client = connect(proxy.url)
        prediction = client.predict(name, [1.0])
        outcome = client.feedback(prediction.prediction_id, -1)
        learned = client.learn(name, [1.0], -1)
    assert len(proxy.seen) == 7 and not proxy.faults
    assert (outcome.rounds, learned.rounds) == (1, 2)
    assert outcome.replayed == learned.replayed == (fault == "lost")
    rounds = service.stats(name)["rounds"]
    assert (rounds["predicted"], rounds["revealed"]) == (2, 2)
    service.assert_replay_equals_live(name)


def test_lines_whose_answers_are_lost_count_once_if_they_have_ids(
    connect: Connect, service: Service, name: str
) -> None:
    examples = [([1.0], -1)] * 5
    with FaultyProxy(service, "lost", "bad gateway") as proxy:
        assert [o.rounds for o in connect(proxy.url).learn_many(name, examples)] == [1, 2, 3, 4, 5]
    assert len(proxy.seen) == 3
    with FaultyProxy(service, "lost") as proxy:
        with pytest.raises(Unreachable):
            connect(proxy.url).learn_many(name, examples, safe=False)
        assert len(proxy.seen) == 1
    assert service.stats(name)["rounds"]["revealed"] == 10


def test_making_a_model_is_not_repeated_blindly(connect: Connect, service: Service, name: str) -> None:
    for number, fault in enumerate(("lost", "bad gateway", "busy")):
        with FaultyProxy(service, fault) as proxy:
            with pytest.raises((Unreachable, Refused)):
                connect(proxy.url).create_model(f"{name}.{number}")
            assert len(proxy.seen) == 1


def test_a_busy_service_is_asked_again_when_it_said(connect: Connect, service: Service, name: str) -> None:
    with FaultyProxy(service, "busy") as proxy:
        impatient = connect(proxy.url, retry_seconds=0.9)
        with pytest.raises(Refused) as refused:
            impatient.learn(name, [1.0], 1)
        assert refused.value.status == 503 and len(proxy.seen) == 1
    with FaultyProxy(service, "busy") as proxy:
        assert connect(proxy.url).learn(name, [1.0], 1).rounds == 1
        assert len(proxy.seen) == 2


def test_a_service_that_is_not_there_is_unreachable(connect: Connect) -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unreachable, match="no response to GET /models/m"):
        connect(f"http://127.0.0.1:{port}", retry_seconds=0.2).get_model("m")


def test_the_key_goes_with_every_request(connect: Connect, service: Service, name: str) -> None:
    with FaultyProxy(service) as proxy:
        client = connect(proxy.url, key="s3cret")
        client.predict(name, [1.0])
        client.stats(name)
    assert [headers["Authorization"] for _, headers in proxy.seen] == ["Bearer s3cret"] * 2


def test_connections_are_used_again(
    connect: Connect, service: Service, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("novikoff.http1.KEPT_OPEN_SECONDS", PATIENCE_SECONDS)  # a busy machine may be slow
    with FaultyProxy(service) as proxy:
        client = connect(proxy.url)
        for _ in range(3):
            client.learn(name, [1.0], 1)
    assert len(proxy.connections) == 1


def test_challengers_are_added_promoted_and_removed(client: Any, name: str) -> None:
    client.create_model(name, challengers={"arow": {"learner": {"algorithm": "arow"}}})
    added = client.add_challenger(name, "steady", learner={"algorithm": "pa1", "C": 0.5})
    assert list(added.settings["challengers"]) == ["arow", "steady"]
    client.learn(name, [1.0, 2.0], -1)
    assert client.predict(name, [1.0, 2.0]).served_by == "original"
    assert client.promote(name, "arow").settings["champion"] == "arow"
    assert client.predict(name, [1.0, 2.0]).served_by == "arow"
    client.remove_challenger(name, "steady")
    assert client.rule_promotion(name, {"rounds_min": 9}).settings["promote"]["confidence"] == 0.95
    assert client.rule_promotion(name, None).settings["promote"] is None
    challengers = client.stats(name).challengers
    assert challengers.champion.name == "arow" and [each.name for each in challengers.line] == ["original"]
    assert challengers.last_promotions[0].former == "original"
    with pytest.raises(Refused, match="has no challenger 'steady'"):
        client.promote(name, "steady")
