"""Named, hashed and dense features: what is read from a client, and what is learned of it."""

from typing import Any

import mmh3
import numpy as np
import pytest

from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import BadFeatures, Features
from service.learning.features.expansion import FEATURES_MAX, TEXT_CHARS_MAX
from tests.learning.rounds import Model, dense_rounds


def features(settings: Any, bias_value: float | None = 1.0) -> Features:
    return feature_kinds.build(feature_kinds.complete(settings, bias=bias_value is not None), bias_value)


def entries(made: Features, sent: Any) -> dict[Any, float]:
    """The vector of what was sent, by name."""
    example = made.decode(made.encode(made.read(sent)))
    z = made.vector(example)
    assert z.indices is not None
    return {made.name(int(i)): value for i, value in zip(z.indices, z.values, strict=True)}


def test_names_enter_the_dictionary_when_they_are_revealed_and_not_before() -> None:
    named = features("named")
    sent = {"age": 30, "city": "Bonn", "new": True, "tags": ["a", "b", "a"]}
    assert entries(named, sent) == {"bias": 1.0}
    assert named.size() == 1
    named.absorb(named.read(sent))
    assert named.size() == 6
    assert entries(named, sent) == {
        "bias": 1.0, "age": 30.0, "city=Bonn": 1.0, "new": 1.0, "tags=a": 2.0, "tags=b": 1.0,
    }  # fmt: skip
    assert entries(named, {"age": -1.5, "city": "Paris", "new": False}) == {
        "bias": 1.0, "age": -1.5, "new": 0.0,
    }  # fmt: skip


def test_the_order_of_names_in_a_request_does_not_matter() -> None:
    one, other = features("named"), features("named")
    sent = {"b": 1, "a": 2, "c": "x"}
    assert one.encode(one.read(sent)) == other.encode(other.read(dict(reversed(sent.items()))))
    one.absorb(one.read(sent))
    other.absorb(other.read(dict(reversed(sent.items()))))
    assert one.state() == other.state()


def test_what_falls_on_the_same_name_is_added_up() -> None:
    named = features("named", None)
    sent = {"a=b": 2, "a": ["b", "b"], "z": 1}
    named.absorb(named.read(sent))
    assert entries(named, sent) == {"a=b": 4.0, "z": 1.0}


def test_text_is_split_into_lower_case_words() -> None:
    named = features({"kind": "named", "text": ["subject"]})
    sent = {"subject": "BUY now, buy Größe_42! Купить"}
    named.absorb(named.read(sent))
    assert entries(named, sent) == {
        "bias": 1.0, "subject=buy": 2.0, "subject=now": 1.0, "subject=größe_42": 1.0, "subject=купить": 1.0,
    }  # fmt: skip
    assert "x" * 256 in next(iter(named.read({"subject": "x" * 1000})))


def test_names_past_the_cap_are_ignored_and_counted() -> None:
    named = features({"kind": "named", "names_max": 2})
    for sent in ({"a": 1}, {"a": 1, "b": 1, "c": 1}, {"c": 1, "d": 1}):
        named.absorb(named.read(sent))
    assert named.ignored_names == 3  # c, c and d
    assert entries(named, {"a": 1, "b": 2, "c": 3, "d": 4}) == {"bias": 1.0, "a": 1.0, "b": 2.0}
    named.vector(named.read({"e": 1}))
    assert named.ignored_names == 3  # a prediction ignores silently: it is counted when it is revealed


def test_hashed_names_fall_into_slots_with_a_sign() -> None:
    hashed = features({"kind": "hashed", "bits": 10}, 0.5)
    assert hashed.size() == 1025
    z = hashed.vector(hashed.read({"age": 30, "city": "Bonn"}))
    expected = {0: 0.5}
    for name, value in (("age", 30), ("city=Bonn", 1)):
        digest = mmh3.hash(name.encode(), 0, signed=False)
        expected[1 + digest % 1024] = value if digest >= 2**31 else -value
    assert z.indices is not None
    assert dict(zip(z.indices.tolist(), z.values.tolist(), strict=True)) == expected
    assert hashed.names_in(hashed.read({"age": 30})) == {1 + mmh3.hash(b"age") % 1024: "age"}


def test_names_that_share_a_slot_are_added_with_their_signs() -> None:
    hashed = features({"kind": "hashed", "bits": 1}, None)
    sent = {f"n{i}": float(i) for i in range(50)}
    z = hashed.vector(hashed.read(sent))
    sums = {0: 0.0, 1: 0.0}
    for name, value in sent.items():
        digest = mmh3.hash(name.encode(), 0, signed=False)
        sums[digest & 1] += value if digest >= 2**31 else -value
    assert z.indices is not None
    assert sorted(z.indices.tolist()) == [0, 1]
    assert dict(zip(z.indices.tolist(), z.values.tolist(), strict=True)) == pytest.approx(sums)


def test_dense_and_named_forms_of_the_same_numbers_learn_the_same_weights() -> None:
    for learner in ("perceptron", "averaged", "pa1", "arow", "scw"):
        dense, named = Model({"algorithm": learner}), Model({"algorithm": learner}, features="named")
        for numbers, truth in dense_rounds(100, 2):
            sent = {f"x{i}": value for i, value in enumerate(numbers)}
            served, _ = dense.predict(numbers)
            dense.reveal(numbers, truth, served)
            named.reveal(sent, truth, served)
        weights = named.weights()
        np.testing.assert_allclose([*weights[1:], weights[0]], dense.weights(), rtol=1e-12, atol=1e-12)


NOT_NAMED: list[tuple[Any, str]] = [
    ([1.0, 2.0], "features"),
    ({}, "features"),
    ({"a": {"b": 1}}, "features.a"),
    ({"a": None}, "features.a"),
    ({"a": [1, 2]}, "features.a"),
    ({"a": [["b"]]}, "features.a"),
    ({"a": float("nan")}, "features.a"),
    ({"a": float("inf")}, "features.a"),
    ({"a": 1e101}, "features.a"),
    ({"a": 10**400}, "features.a"),
    ({"a": "x" * 1_000_000}, "features.a"),
    ({"a": ["x" * 257]}, "features.a"),
    ({"": 1}, "features"),
    ({"n" * 257: 1}, "features"),
    ({"a": "\ud800"}, "features"),
    ({"a": [str(i) for i in range(FEATURES_MAX + 1)]}, "features.a"),
    ({"a": [str(i) for i in range(FEATURES_MAX)], "b": 1}, "features"),
    ({"subject": 3}, "features.subject"),
    ({"subject": ["a", "b"]}, "features.subject"),
    ({"subject": "x" * (TEXT_CHARS_MAX + 1)}, "features.subject"),
]


@pytest.mark.parametrize("kind", ["named", "hashed"])
@pytest.mark.parametrize(("sent", "field"), NOT_NAMED)
def test_what_is_not_a_named_example_is_refused_by_field(sent: Any, field: str, kind: str) -> None:
    with pytest.raises(BadFeatures) as refused:
        features({"kind": kind, "text": ["subject"]}).read(sent)
    assert refused.value.field == field
    assert len(str(refused.value)) < 400


NOT_DENSE: list[tuple[Any, str]] = [
    ({"a": 1}, "features"),
    ("12", "features"),
    (7, "features"),
    (None, "features"),
    ([], "features"),
    ([1.0] * 65_537, "features"),
    ([1.0, "2"], "features[1]"),
    (["1", "2"], "features[0]"),
    ([1.0, None], "features[1]"),
    ([1.0, [2.0]], "features[1]"),
    ([[1.0], [2.0]], "features[0]"),
    ([1.0, {"a": 1}], "features[1]"),
    ([0.0, 1.0, float("nan")], "features[2]"),
    ([0.0, float("-inf")], "features[1]"),
    ([-1e101], "features[0]"),
    ([1.0, 1e300], "features[1]"),
    ([0, 10**400], "features[1]"),
]


@pytest.mark.parametrize(("sent", "field"), NOT_DENSE)
def test_what_is_not_a_dense_example_is_refused_by_field(sent: Any, field: str) -> None:
    with pytest.raises(BadFeatures) as refused:
        features("dense").read(sent)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("sent", "numbers"),
    [
        ([1, 2.5], [1.0, 2.5]),
        ([True, False], [1.0, 0.0]),
        ([True, 3], [1.0, 3.0]),
        ([10**30, 0.5], [1e30, 0.5]),
        ([2**64, 2**70], [2.0**64, 2.0**70]),
        ((1.0, -1e100), [1.0, -1e100]),
        ([1e60, 1e-300], [1e60, 1e-300]),
    ],
)
def test_numbers_of_any_kind_are_a_dense_example(sent: Any, numbers: list[float]) -> None:
    dense = features("dense")
    example = dense.read(sent)
    assert example.dtype == np.float64
    assert example.tolist() == dense.decode(dense.encode(example)).tolist() == numbers


def test_the_bias_is_the_last_entry_of_dense_vectors_and_the_first_of_sparse_ones() -> None:
    dense = features({"dimension": 2}, 3.0)
    assert dense.vector(dense.read([1, 2])).values.tolist() == [1.0, 2.0, 3.0]
    assert [dense.name(i) for i in range(dense.size())] == [0, 1, "bias"]
    scaled = features({"dimension": 2, "normalize": "l2"}, 3.0)
    assert scaled.vector(scaled.read([3, 4])).values.tolist() == [0.6, 0.8, 3.0]
    assert [scaled.name(i) for i in range(scaled.size())] == [0, 1, "bias"]
    named = features("named", 3.0)
    named.absorb(named.read({"a": 1}))
    assert [named.name(i) for i in range(named.size())] == ["bias", "a"]
    curved = features({"dimension": 2, "fourier": {"features": 2}}, 3.0)
    assert [curved.name(i) for i in range(curved.size())] == ["fourier 0", "fourier 1", "bias"]
