"""Statistics of more classes than a matrix is shown for."""

from novikoff import Client
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS


def test_the_commonest_confusions_of_many_classes_name_their_labels(service: Service, name: str) -> None:
    labels: list[str | int | bool] = [*(f"label {at}" for at in range(50)), 7, False]
    service.create(name, labels=labels, multiclass="multiclass")
    for _ in range(3):
        for label in (7, False, 7):
            service.learn(name, [1.0], label)
    confusion = service.stats(name)["confusion"]
    assert confusion["matrix"] is None
    told = {(each["true"], each["served"]): each["count"] for each in confusion["largest"]}
    assert sum(told.values()) == service.stats(name)["mistakes"]
    assert {type(label) for pair in told for label in pair} == {str, int, bool}
    assert set(told) <= {(7, "label 0"), (False, 7), (7, False)}
    service.assert_replay_equals_live(name)
    with Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client:
        largest = client.stats(name).confusion.largest or []
    assert {(cell.truth, cell.served): cell.count for cell in largest} == told
