"""River's own evaluation, on a model of the service."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from river import datasets, evaluate, metrics, preprocessing

from novikoff import Client, RemoteModel
from tests.support.service_process import Service

ROUNDS = 100


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def phishing() -> Any:
    return list(islice(datasets.Phishing(), ROUNDS))


def in_order(x: dict[str, Any]) -> list[float]:
    return [x[name] for name in sorted(x)]


def direct(service: Service, name: str, features: Callable[[dict[str, Any]], Any]) -> float:
    """The error rate of the same stream, sent by hand."""
    for x, y in phishing():
        service.reveal(service.predict(name, features(x))["prediction_id"], y)
    rate: float = service.stats(name)["error_rate"]
    return rate


@pytest.mark.parametrize(("kind", "features"), [("dense", in_order), ("named", dict), ("hashed", dict)])
@pytest.mark.slow
def test_rivers_evaluation_finds_the_error_of_the_stream_sent_directly(
    client: Client, service: Service, name: str, kind: str, features: Callable[[dict[str, Any]], Any]
) -> None:
    for each in (name, f"{name}.direct"):
        service.create(each, labels=[False, True], features=kind)
    metric = evaluate.progressive_val_score(phishing(), RemoteModel(client, name), metrics.Accuracy())
    expected = direct(service, f"{name}.direct", features)
    assert 1 - metric.get() == pytest.approx(expected, abs=1e-12)
    assert service.stats(name)["error_rate"] == expected
    assert client.weights(name).classes == client.weights(f"{name}.direct").classes
    assert service.stats(name)["rounds"] == {
        "predicted": ROUNDS, "revealed": ROUNDS, "pending": 0, "expired": 0,
    }  # fmt: skip


@pytest.mark.slow
def test_labels_that_come_late_reveal_what_was_predicted(client: Client, service: Service, name: str) -> None:
    service.create(name, labels=[False, True])
    metric = evaluate.progressive_val_score(
        phishing(), RemoteModel(client, name), metrics.Accuracy(), delay=20
    )
    stats = service.stats(name)
    assert 1 - metric.get() == pytest.approx(stats["error_rate"], abs=1e-12)
    assert stats["rounds"]["revealed"] == ROUNDS and stats["bound"]["stale_updates_max"] > 1


@pytest.mark.slow
def test_a_pipeline_of_river_may_end_in_the_service(client: Client, service: Service, name: str) -> None:
    service.create(name, labels=[False, True])
    model = preprocessing.StandardScaler() | RemoteModel(client, name)
    metric = evaluate.progressive_val_score(phishing(), model, metrics.Accuracy())
    assert 1 - metric.get() == pytest.approx(service.stats(name)["error_rate"], abs=1e-12)


@pytest.mark.parametrize(("names", "kind"), [(None, "named"), (["a", "b"], "dense")])
def test_learning_without_having_predicted_is_a_whole_round_even_of_a_new_model(
    client: Client, name: str, names: list[str] | None, kind: str
) -> None:
    model = RemoteModel(client, name, names=names)
    model.learn_one({"b": 2.0, "a": 1.0}, -1)
    assert client.get_model(name).features_kind == kind
    assert client.weights(name).classes[0].weights == [-1.0, -2.0]
    assert model.predict_one({"a": 1.0}) == -1


def test_a_prediction_that_the_service_gave_up_is_learned_all_the_same(
    client: Client, service: Service, name: str
) -> None:
    service.create(name, features="named")
    model = RemoteModel(client, name)
    model.predict_one({"a": 1.0})
    service.post(f"/models/{name}/reset", {})
    model.learn_one({"a": 1.0}, -1)
    assert service.stats(name)["rounds"]["revealed"] == 1


def test_a_name_that_a_dense_model_does_not_have_is_refused(client: Client, name: str) -> None:
    model = RemoteModel(client, name, names=["a", "b"])
    model.learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match="'c' is not one of them"):
        model.learn_one({"c": 1.0}, 1)


def test_rivers_log_loss_is_that_of_the_probabilities_that_were_served(
    client: Client, service: Service, name: str
) -> None:
    service.create(name, labels=[False, True], features="named")
    model = RemoteModel(client, name)
    metric = evaluate.progressive_val_score(phishing(), model, metrics.LogLoss())
    stats = service.stats(name)
    assert stats["rounds"]["revealed"] == ROUNDS and stats["rounds"]["pending"] == 0
    assert 0 < metric.get() < 1
    found = model.predict_proba_one(phishing()[0][0])
    assert found.keys() == {False, True} and sum(found.values()) == pytest.approx(1.0)


def test_probabilities_of_many_classes_are_of_the_one_that_is_served(client: Client, name: str) -> None:
    client.create_model(name, labels=None, features="named")
    model = RemoteModel(client, name)
    assert model.predict_proba_one({"a": 1.0}) == {}
    for label in ("x", "y", "z"):
        model.learn_one({"a": 1.0}, label)
    (chance,) = model.predict_proba_one({"a": 1.0}).values()
    assert 0 <= chance <= 1


def test_a_clone_has_the_settings_and_with_all_attributes_the_weights(client: Client, name: str) -> None:
    client.create_model(name, labels=["no", "yes"], features="named", learner={"algorithm": "pa1"})
    model = RemoteModel(client, name)
    model.learn_one({"a": 1.0}, "no")
    fresh, twin = model.clone(), model.clone({"model": f"{name}.twin"}, include_attributes=True)
    of_fresh = client.get_model(fresh.model)
    assert of_fresh.settings == client.get_model(name).settings and of_fresh.version == 0
    assert client.weights(twin.model).classes == client.weights(name).classes and twin.model == f"{name}.twin"
    other = model.clone({"learner": {"algorithm": "arow"}})
    assert client.get_model(other.model).settings["learner"]["algorithm"] == "arow"


@pytest.mark.slow
def test_rivers_evaluation_makes_a_model_that_fits_its_labels(
    client: Client, service: Service, name: str
) -> None:
    stream = phishing()
    metric = evaluate.progressive_val_score(stream, RemoteModel(client, name), metrics.Accuracy(), delay=3)
    assert client.get_model(name).settings["labels"] == [False, True]
    assert service.stats(name)["rounds"] == {
        "predicted": ROUNDS, "revealed": ROUNDS, "pending": 0, "expired": 0,
    }  # fmt: skip
    assert metric.get() > 0.5


@pytest.mark.parametrize(
    ("labels", "made_with"),
    [
        ([True, False], [False, True]),
        (["p", "q", "r"], None),
        ([1, 0], None),
        ([1, -1], None),
        ([-1, 1], [-1, 1]),
    ],
)
@pytest.mark.parametrize(("names", "kind"), [(None, "named"), (["a", "b"], "dense")])
def test_a_model_that_nobody_has_made_gets_labels_that_suit_the_first(
    client: Client, name: str, labels: list[Any], made_with: Any, names: Any, kind: str
) -> None:
    model = RemoteModel(client, name, names=names)
    assert model.predict_one({"a": 1.0}) is None and model.predict_proba_one({"a": 1.0}) == {}
    for label in labels:
        model.learn_one({"a": 1.0, "b": 2.0}, label)
        assert model.predict_one({"a": 1.0}) in labels
    info = client.get_model(name)
    assert info.settings["labels"] == made_with and info.features_kind == kind
    found = model.predict_proba_one({"a": 1.0, "b": 2.0})
    assert set(found) <= set(labels) and len(found) == (2 if made_with else 1)


def test_a_name_that_is_wrong_leaves_no_model_behind(client: Client, service: Service, name: str) -> None:
    with pytest.raises(ValueError, match="'c' is not one of them"):
        RemoteModel(client, name, names=["a"]).learn_one({"c": 1.0}, True)
    assert service.client.get(f"/models/{name}").status_code == 404


def test_a_model_shows_its_name_and_its_service_and_no_password() -> None:
    with Client("http://ann:s3cret@example.org:8000/ml") as client:
        shown = repr(RemoteModel(client, "spam"))
    assert shown == "RemoteModel(Client('http://ann:[secure]@example.org:8000/ml/'), 'spam')"
