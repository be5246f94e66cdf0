"""Resets over HTTP: what is forgotten, and what a retry from before one is told."""

from tests.support.service_process import Service

OVER_EVERY_JOURNAL = True


def test_the_same_stream_makes_the_same_mistakes_after_a_reset(service: Service, name: str) -> None:
    service.create(name, labels=None, features={"kind": "dense", "standardize": True})
    stream = [([float(i % 7), float(i % 3) - i / 20], f"class {i % 4}") for i in range(60)]
    told = []
    for _ in range(2):
        outcomes = [service.learn(name, features, label) for features, label in stream]
        told.append([(each["predicted"], each["score"], each["mistakes"]) for each in outcomes])
        service.assert_replay_equals_live(name)
        service.post(f"/models/{name}/reset", None)
        assert service.stats(name)["confusion"]["labels"] == []
        assert service.get(f"/models/{name}")["dimension"] == 2
    assert told[0] == told[1]


def test_a_retry_of_a_round_from_before_a_reset_gets_its_answer(service: Service, name: str) -> None:
    service.create(name, labels=None)
    service.learn(name, [1.0, 0.0], "a")
    right = service.learn(name, [1.0, 0.0], "a", id=f"{name}-right")
    wrong = service.learn(name, [0.0, 0.0], "c", id=f"{name}-wrong")
    late = service.predict(name, [1.0, 0.0])
    revealed = service.reveal(late["prediction_id"], "b")
    assert (right["predicted"], wrong["predicted"], revealed["predicted"]) == ("a", "a", "a")
    service.post(f"/models/{name}/reset", None)
    service.learn(name, [1.0, 0.0], "z")
    assert service.learn(name, [1.0, 0.0], "a", id=f"{name}-right") == right
    # Its class is forgotten: better none than another one's name.
    assert service.learn(name, [0.0, 0.0], "c", id=f"{name}-wrong") == {**wrong, "predicted": None}
    assert service.reveal(late["prediction_id"], "b") == revealed
