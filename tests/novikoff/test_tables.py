"""Tables whose rows or labels are wrong, and tables for a model that nobody has made."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from novikoff import CutOff, Refused, Unreachable
from tests.novikoff.conftest import Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.api_keys import Holder, lines_of
from tests.support.service_process import Service

ROWS = 600
TABLE = [[1.0, float(i % 7)] for i in range(ROWS)]
LABELS = [1 if i % 2 else -1 for i in range(ROWS)]


def exists(service: Service, model: str) -> bool:
    return service.client.get(f"/models/{model}").status_code == 200


@pytest.mark.parametrize("labels", [LABELS[:-1], [*LABELS, 1], np.array(LABELS[:-1])])
def test_labels_that_are_more_or_fewer_than_the_rows_are_told_before_anything_is_sent(
    client: Any, service: Service, name: str, labels: Any
) -> None:
    words = f"the table has 600 rows, and there are {len(labels)} labels"
    for table in (TABLE, np.array(TABLE), pd.DataFrame(TABLE), iter(TABLE)):
        with pytest.raises(ValueError, match=words):
            client.learn_table(name, table, labels)
    with pytest.raises(ValueError, match=words):
        client.learn_table(name, iter(TABLE), iter(labels))
    assert not exists(service, name)


@pytest.mark.parametrize("label", [None, float("nan"), pd.NA, 1.5, pd.Timestamp(0)])
def test_a_label_that_is_missing_or_none_is_told_with_its_row_before_anything_is_sent(
    client: Any, service: Service, name: str, label: Any
) -> None:
    with pytest.raises(ValueError, match=r"row 2: .* is not a label"):
        client.learn_table(name, [[1.0]] * 4, [1, -1, label, 1])
    assert not exists(service, name)


def test_a_cell_that_cannot_be_sent_is_told_with_its_row_and_column_before_anything_is_sent(
    client: Any, service: Service, name: str
) -> None:
    when: list[Any] = [1.0] * ROWS
    when[400] = pd.Timestamp("2026-01-02")
    table = pd.DataFrame({"a": [1.0] * ROWS, "when": pd.Series(when, dtype=object)})
    with pytest.raises(TypeError, match="row 400, column 'when': a Timestamp cannot be sent"):
        client.learn_table(name, table, LABELS)
    with pytest.raises(TypeError, match="row 1, column 0: a object cannot be sent"):
        client.predict_table(name, [[1.0], [object()]])
    assert not exists(service, name)
    service.create(name)  # with dense features
    for wrong in (table, table.replace(table["when"][400], "x")):
        with pytest.raises(ValueError, match=r"row 400, column 'when': .* is no number"):
            client.learn_table(name, wrong, LABELS)
    assert service.stats(name)["rounds"]["revealed"] == 0


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.slow
def test_a_row_that_is_refused_is_named_and_how_many_were_learned(
    client: Any, service: Service, name: str, safe: bool
) -> None:
    table = [*TABLE[:300], [1.0], *TABLE[301:]]
    with pytest.raises(Refused, match=r"row 300: .*; 499 of 600 rows were learned") as refused:
        client.learn_table(name, table, LABELS, safe=safe)
    assert refused.value.code == "invalid-request" and refused.value.fields[0].field == "features"
    assert service.stats(name)["rounds"]["revealed"] == 499  # what was sent with it, and nothing after that
    with pytest.raises(Refused, match=r"row 300: .*; 499 of 600 rows were predicted"):
        client.predict_table(name, table)


@pytest.mark.slow
def test_a_table_that_breaks_off_tells_how_many_rows_were_learned(
    connect: Connect, service: Service, name: str
) -> None:
    service.create(name)
    for fault, kind in (("lost", Unreachable), ("cut short", CutOff)):
        with (
            FaultyProxy(service, "none", "none", fault) as proxy,
            pytest.raises(kind, match="at least 250 of 600 rows were learned"),
        ):
            connect(proxy.url).learn_table(name, TABLE, LABELS, safe=False)
    with (
        FaultyProxy(service, "none", "none", *["busy"] * 9) as proxy,
        pytest.raises(Refused, match="at least 250 of 600 rows were learned"),
    ):
        connect(proxy.url, retry_seconds=0.1).learn_table(name, TABLE, LABELS)


@pytest.mark.parametrize(
    ("labels", "made_with"),
    [
        (["p", "q", "p"], None),
        ([0, 1, 0], None),
        ([1, 1, 1], None),  # of 0 and 1, or of 1, 2 and 3
        ([True, True, True], [False, True]),
        (np.array([True, False, True]), [False, True]),
        (pd.Series(["a", "b", "c"], dtype="category"), None),
        ([1, -1, 1], [-1, 1]),
        ([1.0, -1.0, 1.0], [-1, 1]),
    ],
)
def test_a_model_that_nobody_has_made_gets_the_labels_of_the_table(
    client: Any, service: Service, name: str, labels: Any, made_with: list[Any] | None
) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, -1.0], "sender": ["ann", "bob", "ann"]})
    for model, table, kind in ((f"{name}.named", frame, "named"), (name, [[1.0, 2.0]] * 3, "dense")):
        learned = client.learn_table(model, table, labels)
        assert [each.label for each in learned] == list(labels) and learned[-1].rounds == 3
        info = client.get_model(model)
        assert info.settings["labels"] == made_with and info.features_kind == kind
    service.assert_replay_equals_live(name)


def test_a_key_that_may_not_make_models_learns_what_the_services_own_model_takes(
    connect: Connect, start: Any, name: str
) -> None:
    writer = Holder("writer", "write")
    service = start(api_keys=lines_of(writer))
    client = connect(service.url, key=writer.secret)
    for labels in ([1, 1], [1, -1]):
        assert len(client.learn_table(f"{name}.{labels[1]}", [[1.0]] * 2, labels)) == 2
    with pytest.raises(Refused) as refused:
        client.learn_table(name, [[1.0]] * 2, ["p", "q"])
    assert refused.value.code == "forbidden"
    with pytest.raises(Refused) as unknown:
        client.get_model(name)
    assert unknown.value.code == "unknown-model"  # none with other labels was left behind


def test_a_model_that_somebody_has_made_stays_as_it_is(client: Any, service: Service, name: str) -> None:
    service.create(name, labels=["p", "q"])
    with pytest.raises(Refused, match=r"row 1: the model's labels are 'p', 'q'; 2 of 3 rows were learned"):
        client.learn_table(name, [[1.0]] * 3, ["p", "r", "q"])


def test_an_empty_table_makes_no_model(client: Any, service: Service, name: str) -> None:
    assert client.learn_table(name, [], []) == client.predict_table(name, []) == []
    assert not exists(service, name)
