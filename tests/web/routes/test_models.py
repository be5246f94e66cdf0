"""The life of a model over HTTP."""

from tests.support.service_process import Service, problem_of

OVER_EVERY_JOURNAL = True


def test_a_model_is_made_as_asked_and_never_changed(service: Service, name: str) -> None:
    made = service.create(name, labels=["no", "yes"], learner={"rule": "margin", "delta": 0.5}, bias=False)
    assert made["settings"] == {
        "learner": {
            "algorithm": "perceptron",
            "rule": "margin",
            "delta": 0.5,
            "eta0": 1.0,
            "schedule": "constant",
        },
        "labels": ["no", "yes"],
        "tie": "yes",
        "bias": False,
        "bias_value": 1.0,
        "multiclass": None,
        "classes_max": 2,
        "features": {
            "kind": "dense",
            "dimension": None,
            "normalize": None,
            "standardize": False,
            "fourier": None,
        },
        "size_max": None,
        "weights_max": 33_554_432,
        "protocol": "delayed",
        "declared_margin": None,
        "confidence": 0.95,
        "coverage": None,
        "ask": None,
        "class_weights": None,
        "champion": "original",
        "challengers": {},
        "promote": None,
        "on_expiry": None,
        "pending_ttl_seconds": None,
        "rules": 3,
    }
    assert service.get(f"/models/{name}") == made
    assert problem_of(service.client.post("/models", json={"model": name})) == (409, "model-exists")
    assert service.get(f"/models/{name}") == made


def test_the_first_example_fixes_the_dimension(service: Service, name: str) -> None:
    service.create(name)
    assert service.get(f"/models/{name}")["dimension"] is None
    assert service.weights(name)[0] == []
    service.predict(name, [1.0, 2.0, 3.0])
    assert service.get(f"/models/{name}")["dimension"] == 3
    assert service.weights(name)[0] == [0.0, 0.0, 0.0]
    service.assert_replay_equals_live(name)


def test_a_declared_dimension_is_kept(service: Service, name: str) -> None:
    service.create(name, features={"dimension": 2})
    assert service.refused("/predict", {"model": name, "features": [1.0]}) == (422, "invalid-request")
    service.predict(name, [1.0, 2.0])


def test_tie_rule_rate_and_bias_do_what_they_say(service: Service, name: str) -> None:
    service.create(name, tie=-1, bias_value=2.0, learner={"eta0": 3.0, "schedule": "inverse"})
    assert service.predict(name, [1.0])["label"] == -1
    service.learn(name, [1.0], 1)
    assert service.get(f"/models/{name}/weights") == {
        "model": name,
        "version": 1,
        "labels": [-1, 1],
        "names": None,
        "classes": [{"label": None, "weights": [3.0], "bias": 6.0}],
    }
    service.learn(name, [1.0], -1)
    assert service.weights(name)[0] == [1.5]
    service.assert_replay_equals_live(name)


def test_the_margin_rule_updates_at_a_tie_that_was_served_right(service: Service, name: str) -> None:
    service.create(name, learner={"rule": "margin"})
    outcome = service.learn(name, [1.0], 1)
    assert not outcome["mistake"] and outcome["updated"]
    service.create(f"{name}m")
    outcome = service.learn(f"{name}m", [1.0], 1)
    assert not outcome["mistake"] and not outcome["updated"]


def test_models_are_listed_by_name_page_by_page(service: Service, name: str) -> None:
    names = sorted(f"{name}.{i}" for i in range(7))
    for each in names:
        service.create(each)
    seen: list[str] = []
    cursor = ""
    for _ in range(4):
        page = service.get(f"/models?model={name}.&limit=2&cursor={cursor}")
        seen += [line["model"] for line in page["models"]]
        cursor = page["next"]
    assert seen == names and cursor is None
    assert service.get(f"/models?model={name}.nobody")["models"] == []


def test_bad_queries_are_refused(service: Service) -> None:
    for query in ("limit=0", "limit=1001", "limit=x", "limit=99999999999999999999", f"cursor={'x' * 129}"):
        for path in ("/models", "/stats"):
            assert problem_of(service.client.get(f"{path}?{query}")) == (422, "invalid-request")


def test_a_deleted_model_is_gone_with_all_it_had(service: Service, name: str) -> None:
    waiting = service.predict(name, [1.0])["prediction_id"]
    revealed = service.predict(name, [1.0], id=f"{name}-chosen")["prediction_id"]
    service.reveal(revealed, -1)
    assert service.client.delete(f"/models/{name}").status_code == 204
    assert service.client.delete(f"/models/{name}").status_code == 404
    for prediction_id in (waiting, revealed):
        refused = service.refused("/feedback", {"prediction_id": prediction_id, "label": -1})
        assert refused == (404, "unknown-prediction")
    service.create(name, labels=["a", "b"])
    assert service.stats(name)["rounds"]["predicted"] == 0
    service.learn(name, [1.0, 2.0], "a", id=revealed)
    service.assert_replay_equals_live(name)


def test_an_explanation_has_the_largest_terms_first(service: Service, name: str) -> None:
    service.create(name, bias_value=0.5)
    service.learn(name, [1.0, -4.0, 2.0], -1)
    prediction = service.predict(name, [1.0, 1.0, 1.0], explain=3)
    assert prediction["explanation"] == [
        {"feature": 1, "value": 1.0, "weight": 4.0, "contribution": 4.0},
        {"feature": 2, "value": 1.0, "weight": -2.0, "contribution": -2.0},
        {"feature": 0, "value": 1.0, "weight": -1.0, "contribution": -1.0},
    ]
    everything = service.predict(name, [1.0, 1.0, 1.0], explain=99)
    assert sum(term["contribution"] for term in everything["explanation"]) == everything["score"]
    assert "explanation" not in service.predict(name, [1.0, 1.0, 1.0])


def test_stats_of_all_models_are_those_of_each(service: Service, name: str) -> None:
    for i in range(3):
        service.learn(f"{name}.{i}", [1.0], -1)
    page = service.get(f"/stats?model={name}.&limit=2")
    assert page["models"] == [service.stats(f"{name}.0"), service.stats(f"{name}.1")]
    page = service.get(f"/stats?model={name}.&limit=2&cursor={page['next']}")
    assert (page["models"], page["next"]) == ([service.stats(f"{name}.2")], None)


def test_the_probes_answer(service: Service) -> None:
    assert service.get("/livez") == {"status": "live"}
    assert service.get("/readyz") == {"status": "ready"}


def test_the_document_describes_every_route_and_its_problems(service: Service) -> None:
    document = service.get("/openapi.json")
    assert {"/predict", "/feedback", "/learn", "/models", "/models/{model}", "/stats/{model}"} <= document[
        "paths"
    ].keys()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)
    assert {"400", "409", "410", "413", "415", "422", "503"} <= document["paths"]["/predict"]["post"][
        "responses"
    ].keys()
    assert service.client.get("/docs").status_code == 200


def test_a_wrong_method_is_told_all_the_right_ones(service: Service) -> None:
    answer = service.client.patch("/models")
    assert problem_of(answer) == (405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, POST"
    assert service.client.patch("/models/m").headers["allow"] == "DELETE, GET, PUT"
