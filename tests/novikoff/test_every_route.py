"""The clients know every route of the service that is for programs."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from novikoff import AsyncClient, Client, NovikoffError, Refused
from tests.support.service_process import NO_TLS, Service

FOR_MACHINES = {"GET /metrics", "GET /livez", "GET /readyz"}
ALIASES = {f"POST /models/m/{name}" for name in ("predict", "feedback", "learn", "stream")}
"""For proxies: the clients say the same without the model in the path."""
FEATURES = [1.0, 2.0]

ARGUMENTS = {
    "model": "m", "features": FEATURES, "label": 1, "prediction_id": "p", "tag": "t", "examples": [(FEATURES, 1)],
    "lines": [{"features": FEATURES}], "table": [FEATURES], "labels": [1], "new": "n", "to": 0, "export": b"{}",
    "name": "c", "challenger": "c", "promote": None, "id": "j",
}  # fmt: skip
"""What each parameter without a default is given."""


class Recording(httpx.HTTPTransport):
    """Sends requests, and remembers them."""

    def __init__(self) -> None:
        super().__init__(verify=NO_TLS)
        self.sent: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.add(f"{request.method} {request.url.path}")
        return super().handle_request(request)


def sent_by_every_call(url: str) -> set[str]:
    recording = Recording()
    with Client(url, transport=recording) as client:
        for name, method in inspect.getmembers(client, inspect.ismethod):
            if name.startswith("_") or name in ("close", "wait_for"):
                continue
            parameters = inspect.signature(method).parameters.values()
            needed = [
                p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
            ]
            with suppress(NovikoffError, StopIteration):
                answer = method(**{name: ARGUMENTS[name] for name in needed})
                if inspect.isgenerator(answer):
                    next(answer)
                    answer.close()
    return recording.sent


def test_there_is_a_call_for_every_route(start: Callable[..., Service]) -> None:
    service = start()
    filled = {"{model}": "m", "{challenger}": "c", "{job_id}": "j", "{prediction_id}": "p"}
    routes = set()
    for path, item in service.get("/openapi.json")["paths"].items():
        for name, value in filled.items():
            path = path.replace(name, value)
        routes |= {f"{method.upper()} {path}" for method in item}
    assert routes >= ALIASES
    assert routes - FOR_MACHINES - ALIASES == sent_by_every_call(service.url)


def test_both_clients_have_the_same_calls_with_the_same_parameters() -> None:
    def calls_of(kind: type) -> dict[str, list[tuple[str, Any]]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: [(p.name, p.default) for p in inspect.signature(method).parameters.values()]
            for name, method in methods
            if not name.startswith("_")
        }

    assert calls_of(Client) == calls_of(AsyncClient)


@pytest.mark.slow
def test_a_fit_is_started_waited_for_and_told_of(client: Any, name: str) -> None:
    examples = [([1.0, 0.0], 1), ([0.0, 1.0], -1)] * 4
    client.create_model(name)
    job = client.wait_for(client.fit(name, examples, passes_max=5), every_seconds=0.02)
    assert (job.state, job.kind, job.examples, job.error) == ("done", "fit", 8, None)
    assert job.version == client.get_model(name).version
    assert client.get_job(job.id) == job and client.cancel_job(job.id) == job
    assert [event.kind for event in client.events(name)][-1] == "fitted"


@pytest.mark.slow
def test_the_past_is_played_through_other_settings(service: Service, name: str) -> None:
    with Client(service.url) as client:
        for label in (1, -1, 1, -1):
            client.learn(name, FEATURES, label)
        grid = [{"learner": {"algorithm": "pa1"}}, {"learner": {"algorithm": "arow"}}]
        started = client.what_if(name, grid=grid, keep_as=f"{name}.best")
        job = client.wait_for(started, every_seconds=0.02)
        assert job.state == "done" and job.result is not None
        assert client.get_model(f"{name}.best").settings["learner"]["algorithm"] in ("pa1", "arow")


def test_what_waits_for_a_label_comes_page_by_page_in_either_order(client: Any, name: str) -> None:
    ids = [client.predict(name, FEATURES, id=f"{name}-{at}").prediction_id for at in range(5)]
    assert [waiting.prediction_id for waiting in client.pending(name, page=2)] == ids[::-1]
    assert {waiting.prediction_id for waiting in client.pending(name, order="least_sure", page=2)} == {*ids}
    assert client.attention().count >= 0 and client.whoami().role == "admin"


@pytest.mark.slow
def test_a_challenger_that_has_learned_the_history_enters_by_a_job(client: Any, name: str) -> None:
    for label in (1, -1, 1):
        client.learn(name, FEATURES, label)
    job = client.wait_for(
        client.add_warm_challenger(name, "c", learner={"algorithm": "arow"}), every_seconds=0.02
    )
    assert (job.state, job.kind) == ("done", "challenger")
    assert client.stats(name).challengers.entered == 1


def test_events_come_page_by_page_with_what_they_tell(client: Any, name: str) -> None:
    for label in (1, -1, 1):
        client.learn(name, FEATURES, label)
    events = list(client.events(name, page=2))
    assert [event.kind for event in events] == ["created", "dimension", "learned", "learned", "learned"]
    assert [event.details["label"] for event in events[2:]] == [1, -1, 1]
    assert list(client.events(name, after=events[1].seq)) == events[2:]
    assert events[0].at <= events[1].at


def test_some_statistics_and_the_largest_weights_alone(client: Any, name: str) -> None:
    client.learn(name, {"a": 1.0, "b": -3.0, "c": 2.0}, -1)
    told = client.stats_fields(name, "error_rate", "mistakes")
    assert told == {"model": name, "error_rate": 1.0, "mistakes": 1}
    (row,) = client.largest_weights(name, 2).classes
    assert [(weight.feature, weight.weight) for weight in row.weights] == [("b", 3.0), ("c", -2.0)]
    assert client.stats_fields(name, "mistakes", at=0)["mistakes"] == 0


def test_the_feed_gives_a_snapshot_and_then_what_changes(service: Service, name: str) -> None:
    with Client(service.url) as client:
        client.learn(name, FEATURES, 1)
        frames = client.feed(name)
        first = next(frames)
        assert first.kind == "snapshot" and first.data["rounds"]["revealed"] == 1
        client.learn(name, FEATURES, 1)
        second = next(frames)
        assert second.kind == "changes" and second.data["rounds"]["revealed"] == 2
        frames.close()
        client.learn(name, FEATURES, 1)
        (again,) = (next(client.feed(name, last_event_id=second.id)),)
        assert again.kind == "changes" and again.data["rounds"]["revealed"] == 3
        with pytest.raises(Refused) as refused:
            next(client.feed("no-such-model"))
        assert refused.value.code == "unknown-model"


@pytest.mark.parametrize("kind", ["dense", "named"])
def test_a_table_is_learned_and_predicted_in_one_call(
    client: Any, service: Service, name: str, kind: str
) -> None:
    columns = {"a": [1.0, 2.0, -1.0], "b": [0.0, -1.0, 3.0]}
    table, labels = pd.DataFrame(columns), pd.Series([1, -1, 1])
    for model in (name, f"{name}.direct"):
        service.create(model, features=kind)
    learned = client.learn_table(name, table, labels)
    for row, label in zip(table.to_dict("records"), labels, strict=True):
        service.learn(f"{name}.direct", row if kind == "named" else list(row.values()), int(label))
    assert [each.label for each in learned] == [1, -1, 1] and learned[-1].rounds == 3
    assert client.weights(name).classes == client.weights(f"{name}.direct").classes
    predicted = client.predict_table(name, table)
    assert [p.score for p in predicted] == [
        service.predict(f"{name}.direct", row if kind == "named" else list(row.values()))["score"]
        for row in table.to_dict("records")
    ]


def test_arrays_and_cells_that_are_missing(client: Any, service: Service, name: str) -> None:
    array = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert [each.rounds for each in client.learn_table(name, array, np.array([1, -1]), safe=False)] == [1, 2]
    assert len(client.predict_table(name, array)) == 2
    with pytest.raises(Refused, match="row 1: "):
        client.predict_table(name, [[1.0, 2.0], [1.0]])
    with pytest.raises(ValueError):
        client.learn_table(name, array, [1])
    holes = pd.DataFrame({"a": [1.0, None], "colour": ["red", None], "b": [2.0, 3.0]})
    client.learn_table(f"{name}.named", holes, [1, -1])
    rounds = list(client.history(f"{name}.named"))
    assert [set(each.features) for each in rounds] == [{"a", "colour=red", "b"}, {"b"}]
