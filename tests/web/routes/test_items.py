"""Several requests in one."""

from tests.support.service_process import Service, problem_of

OVER_EVERY_JOURNAL = True


def test_each_item_is_answered_in_order_and_a_bad_one_spoils_only_itself(service: Service, name: str) -> None:
    items = [{"model": name, "features": [1.0, float(i)]} for i in range(5)]
    items.insert(2, {"model": name, "features": []})
    items.insert(4, {"model": name, "features": [1.0], "colour": "red"})  # type: ignore[dict-item]
    predictions = service.post("/predict", {"items": items})["items"]
    assert [("error" in p) for p in predictions] == [False, False, True, False, True, False, False]
    assert predictions[2]["error"]["errors"][0]["field"] == "features"
    assert predictions[4]["error"]["errors"][0]["field"] == "colour"
    ids = [p["prediction_id"] for p in predictions if "error" not in p]
    reveals = [{"prediction_id": prediction_id, "label": -1} for prediction_id in ids]
    reveals.insert(1, {"prediction_id": "nobody", "label": 1})
    outcomes = service.post("/feedback", {"items": reveals})["items"]
    assert outcomes[1]["error"]["status"] == 404
    assert [o["rounds"] for o in outcomes if "error" not in o] == [1, 2, 3, 4, 5]
    learned = service.post("/learn", {"items": [{"model": name, "features": [1.0, 1.0], "label": 1}] * 3})[
        "items"
    ]
    assert [o["rounds"] for o in learned] == [6, 7, 8]
    service.assert_replay_equals_live(name)


def test_too_many_items_and_no_list_are_refused(service: Service, name: str) -> None:
    item = {"model": name, "features": [1.0]}
    assert len(service.post("/predict", {"items": [item] * 1000})["items"]) == 1000
    for items in ([item] * 1001, {}, "x", None):
        assert problem_of(service.client.post("/predict", json={"items": items})) == (422, "invalid-request")
    both = {"items": [item], "model": name}
    assert problem_of(service.client.post("/predict", json=both)) == (422, "invalid-request")
    assert service.post("/feedback", {"items": []}) == {"items": []}


def test_items_with_ids_keep_their_order(service: Service, name: str) -> None:
    for batch in range(5):
        items = [
            {
                "model": name,
                "features": [1.0, float(i)],
                "label": 1 if i % 3 else -1,
                "id": f"{name}-{batch}-{i}",
            }
            for i in range(100)
        ]
        answers = service.post("/learn", {"items": items})["items"]
        assert [answer["rounds"] for answer in answers] == list(range(batch * 100 + 1, batch * 100 + 101))
