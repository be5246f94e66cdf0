"""Products of pairs of features: dense, named and hashed, each with its own weight or hashed past a cap."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.learning import saved
from service.learning.features import kinds as feature_kinds
from service.learning.features.contract import BadFeatures, Features
from service.learning.features.crosses import (
    CROSSED_MAX,
    PAIRS_MAX,
    SLOTS,
    DenseCrosses,
    NamedCrosses,
    hashed_pairs,
)
from service.learning.features.hashed import slot_of
from service.learning.vectors import LARGEST, Vector
from tests.learning.rounds import Model


def features(settings: dict[str, Any], bias_value: float | None = None) -> Features:
    return feature_kinds.build(feature_kinds.complete(settings), bias_value)


def named(made: Features, sent: Any) -> dict[int | str, float]:
    """The entries of a vector that are not 0, by what they are called."""
    example = made.read(sent)
    z, names = made.vector(example), made.names_in(example)
    places = range(len(z.values)) if z.indices is None else z.indices.tolist()
    return {
        names.get(i) or made.name(i): value
        for i, value in zip(places, z.values.tolist(), strict=True)
        if value
    }


def products(sent: dict[Any, float]) -> dict[Any, float]:
    pairs = combinations_with_replacement(sent.items(), 2)
    return {**sent, **{f"{a}×{b}": x * y for (a, x), (b, y) in pairs}}


def test_dense_features_come_with_their_squares_and_products() -> None:
    made = features({"crosses": 2}, 3.0)
    made.dimension = 3
    assert named(made, [2.0, -3.0, 5.0]) == {**products({0: 2.0, 1: -3.0, 2: 5.0}), "bias": 3.0}
    assert made.size() == 3 + 6 + 1
    assert made.is_fixed


numbers = st.dictionaries(
    st.sampled_from("abcdefgh"), st.floats(0.25, 4.0) | st.floats(-4.0, -0.25), min_size=1
)


@given(st.lists(numbers, min_size=1, max_size=6), numbers, st.booleans())
def test_a_pair_of_names_has_a_weight_once_both_were_revealed_together(
    revealed: list[dict[str, float]], sent: dict[str, float], bias: bool
) -> None:
    made = features({"kind": "named", "crosses": 2}, 1.0 if bias else None)
    known: set[str] = set()
    for example in revealed:
        made.absorb(made.read(example))
        known |= products(dict(sorted(example.items()))).keys()
    assert made.size() == len(known) + bias
    # Which of two names comes first in the name of their pair is which was revealed first.
    either = known | {"×".join(reversed(name.split("×"))) for name in known}
    found = named(made, sent)
    expected = {name: value for name, value in products(sent).items() if name in either}
    if bias:
        assert found.pop("bias") == 1.0
    assert {frozenset(str(name).split("×")): pytest.approx(value) for name, value in found.items()
            if "×" in str(name)} == {
        frozenset(name.split("×")): value for name, value in expected.items() if "×" in name
    }  # fmt: skip
    assert {name: value for name, value in found.items() if "×" not in str(name)} == {
        name: value for name, value in expected.items() if "×" not in name
    }


def test_hashed_features_and_their_pairs_share_the_slots() -> None:
    made = features({"kind": "hashed", "bits": 10, "crosses": 2})
    slots = {name: slot_of(name, 10) for name in ("a", "b")}
    expected = np.zeros(1024)
    sent = {"a": 2.0, "b": 3.0}
    for name, (slot, sign) in slots.items():
        expected[slot] += sign * sent[name]
    for one, other in (("a", "a"), ("a", "b"), ("b", "b")):
        low, high = sorted((slots[one], slots[other]))
        slot, sign = hashed_pairs(np.array([low[0]]), np.array([high[0]]), 1024)
        expected[slot[0]] += sign[0] * low[1] * high[1] * sent[one] * sent[other]
    z = made.vector(made.read(sent))
    found = np.zeros(1024)
    found[z.indices] = z.values
    assert found.tolist() == expected.tolist()
    assert made.size() == 1024 and made.is_fixed
    assert set(made.names_in(made.read(sent)).values()) in (
        {"a", "b", "a×a", "b×b", "a×b"},
        {"a", "b", "a×a", "b×b", "b×a"},
    )


def test_standardizing_comes_before_crossing_and_normalizing_after() -> None:
    made = features({"standardize": True, "crosses": 2, "normalize": "l2"})
    for sent in ([1.0, 100.0], [3.0, 500.0]):
        made.absorb(made.read(sent))
    z = made.vector(made.read([3.0, 100.0])).values
    assert z.tolist() == pytest.approx(np.array([1, -1, 1, -1, 1]) / np.sqrt(5))


def test_dense_pairs_past_the_cap_are_added_up_in_slots() -> None:
    crosses, x = DenseCrosses(pairs_max=8), np.arange(1.0, 6.0)
    z = crosses.apply(Vector(x)).values
    assert len(z) == crosses.size(5) == 5 + 8
    expected = np.zeros(8)
    for i, j in combinations_with_replacement(range(5), 2):
        slot, sign = hashed_pairs(np.array([i]), np.array([j]), 8)
        expected[slot[0]] += sign[0] * x[i] * x[j]
    assert z.tolist() == [*x, *expected]
    assert crosses.name(7, 5, lambda i: i) == "crosses 2"
    assert crosses.name(4, 5, lambda i: i) == 4


def three_and_slots() -> NamedCrosses:
    return NamedCrosses(first=1, pairs_max=3, slots=4)


def test_named_pairs_past_the_cap_share_slots_and_names_go_on_behind_them() -> None:
    crosses = three_and_slots()
    for indices in ([1, 2], [3], [1, 3], [4]):
        crosses.absorb(Vector(np.ones(len(indices)), np.array(indices)))
    places = [str(crosses.name(i, 5, lambda i: "?abcd"[i])) for i in range(1, crosses.size(5))]
    assert places == ["a", "b", "a×a", "a×b", "b×b", *(f"crosses {k}" for k in range(4)), "c", "d"]
    z = crosses.apply(Vector(np.array([2.0, 3.0, 5.0]), np.array([4, 2, 1])))  # d, b, a
    assert z.indices is not None
    found = dict(zip(z.indices.tolist(), z.values.tolist(), strict=True))
    expected = {1: 5.0, 2: 3.0, 3: 25.0, 4: 15.0, 5: 9.0, 11: 2.0}
    for (i, j), product in {(4, 4): 4.0, (2, 4): 6.0, (1, 4): 10.0}.items():
        slot, sign = hashed_pairs(np.array([i]), np.array([j]), 4)
        place = 6 + int(slot[0])
        expected[place] = expected.get(place, 0.0) + float(sign[0]) * product
    assert found == expected
    shared = crosses.names_in(Vector(np.ones(2), np.array([1, 4])), {1: "a", 4: "d"})
    assert sorted(" | ".join(shared.values()).split(" | ")) == ["a×d", "d×d"]


def test_more_features_than_can_be_crossed_are_refused() -> None:
    for settings, sent in (
        ({"crosses": 2}, [1.0] * (CROSSED_MAX + 1)),
        ({"kind": "named", "crosses": 2}, {str(i): 1.0 for i in range(CROSSED_MAX + 1)}),
        ({"kind": "hashed", "crosses": 2}, {str(i): 1.0 for i in range(CROSSED_MAX + 1)}),
    ):
        made = features(settings)
        with pytest.raises(BadFeatures) as refused:
            made.read(sent)
        assert refused.value.field == "features"
        assert made.read_rows([sent, sent]) is None


def test_what_crosses_cost_is_known_before_there_is_a_model() -> None:
    for settings, weights in (
        ({"dimension": 64}, 64 + 64 * 65 // 2),
        ({"dimension": 700}, 700 + PAIRS_MAX),
        ({"kind": "named"}, 100_000 + PAIRS_MAX + SLOTS),
        ({"kind": "named", "names_max": 10}, 10 + 55),
        ({"kind": "hashed", "bits": 6}, 64),
    ):
        completed = feature_kinds.complete({**settings, "crosses": 2})
        assert feature_kinds.weights_of(completed) == weights
        made = feature_kinds.build(completed, None)
        assert made.size() <= weights


def test_the_largest_features_have_no_product_beyond_them() -> None:
    for settings, sent in (
        ({"crosses": 2}, [LARGEST, -LARGEST]),
        ({"kind": "hashed", "bits": 1, "crosses": 2}, {"a": LARGEST, "b": LARGEST, "c": LARGEST}),
    ):
        made = features(settings)
        assert np.abs(made.vector(made.read(sent)).values).max() == LARGEST


@pytest.mark.parametrize(
    "change",
    [
        lambda codes: codes[1:],  # a name without a place
        lambda codes: np.append(codes, codes[-1]),
        lambda codes: np.append(codes, 4 * 2.0**25 + 1),  # a pair of a name that there is not
        lambda codes: codes + 0.5,
        lambda codes: -codes,
        lambda codes: np.append(codes, [2 * 2.0**25 + 3, 3 * 2.0**25 + 3]),  # one pair too many
        lambda codes: np.append(codes[:4], 3 * 2.0**25 + 1),  # the higher one first
        lambda codes: codes.reshape(1, -1),
        lambda codes: codes.tolist(),
        lambda codes: codes.astype(np.int64),
    ],
)
def test_a_state_that_crosses_cannot_have_is_refused(change: Any) -> None:
    crosses = three_and_slots()
    crosses.absorb(Vector(np.array([1.0, 1.0, 0.0]), np.array([1, 2, 3])))
    kept = crosses.state()["codes"]
    again = three_and_slots()
    again.restore({"codes": kept}, 4)
    assert again.size(4) == crosses.size(4)
    with pytest.raises(saved.BadState) as refused:
        again.restore({"codes": change(kept)}, 4)
    assert refused.value.field == "codes"


@pytest.mark.slow
def test_crosses_learn_what_no_plane_separates() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, size=(3000, 2))
    inside = ((x**2).sum(axis=1) < 0.5).astype(int).tolist()
    for settings, sent in (
        ({"crosses": 2}, x.tolist()),
        ({"kind": "named", "crosses": 2}, [{"x": a, "y": b} for a, b in x.tolist()]),
        ({"kind": "hashed", "crosses": 2}, [{"x": a, "y": b} for a, b in x.tolist()]),
    ):
        model = Model({"algorithm": "arow"}, features=settings)
        rounds = list(zip(sent, inside, strict=True))
        model.run(rounds[:2000])
        before = model.mistakes
        assert model.run(rounds[2000:]).mistakes - before < 40
