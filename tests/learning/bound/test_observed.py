"""The window of the last examples, against a list of all of them."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning.bound.observed_margin import Observed


def fitting(examples, per_feature):
    """The definition: the longest run of last examples that is at most 64 and 4 KB."""
    kept, room = [], 4096
    for x, y, indices in reversed(examples):
        room -= 8 * (1 + per_feature * len(x))
        if room < 0 or len(kept) == 64:
            break
        kept.append((x, y, indices))
    return kept


def naive_least(kept, weights, offset):
    scores = []
    for x, y, indices in kept:
        places = range(len(x)) if indices is None else indices
        score = sum(
            value * (weights[at] if at < len(weights) else 0.0) for value, at in zip(x, places, strict=True)
        )
        scores.append(y * (score + offset))
    return min(scores, default=None)


@settings(deadline=None)
@given(
    lengths=st.one_of(
        st.lists(st.integers(0, 6), max_size=150),
        st.lists(st.integers(0, 300), max_size=40),
        st.lists(st.sampled_from([3, 511, 512, 600]), max_size=12),
        st.integers(0, 40).flatmap(lambda n: st.lists(st.just(n), max_size=150)),
    ),
    sparse=st.booleans(),
    weights_length=st.integers(1, 400),
    seed=st.integers(0, 2**32),
)
def test_the_window_is_the_last_examples_that_fit_and_its_least_score_is_right(
    lengths, sparse, weights_length, seed
):
    rng = np.random.default_rng(seed)
    window, examples = Observed(), []
    for length in lengths:
        x, y = rng.normal(size=length), int(rng.choice([-1, 1]))
        indices = rng.choice(1000, size=length, replace=False).astype(np.intp) if sparse else None
        window.push(x, y, indices)
        examples.append((x, y, indices))
        assert len(window) <= 4096
    kept = fitting(examples, 2 if sparse else 1)
    assert window.examples == len(kept)
    weights = rng.normal(size=weights_length)
    for again in (window, Observed.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(window.state())))):
        least = again.least(weights, 0.25)
        assert least == (None if not kept else pytest.approx(naive_least(kept, weights, 0.25)))


def test_sparse_and_dense_examples_give_the_same():
    rng = np.random.default_rng(1)
    dense, sparse = Observed(), Observed()
    for _ in range(30):
        x = np.where(rng.random(6) < 0.5, rng.normal(size=6), 0.0)
        y = int(rng.choice([-1, 1]))
        indices = np.flatnonzero(x)
        dense.push(x, y, None)
        sparse.push(x[indices], y, indices)
    weights = rng.normal(size=6)
    assert dense.least(weights, 0.5) == pytest.approx(sparse.least(weights, 0.5))


def test_at_most_64_examples_are_kept_however_small():
    window = Observed()
    for number in range(1, 101):
        window.push(np.array([float(number)]), 1, None)
        assert window.examples == min(number, 64)
    assert window.least(np.ones(1), 0.0) == 37.0


def test_a_change_between_dense_and_sparse_starts_afresh():
    window = Observed()
    window.push(np.array([5.0]), 1, None)
    window.push(np.array([1.0]), 1, np.array([3]))
    assert window.examples == 1
    assert window.least(np.array([9.0, 0.0, 0.0, 2.0]), 0.0) == 2.0
    window.push(np.array([5.0]), 1, None)
    assert window.least(np.array([9.0]), 0.0) == 45.0


def test_an_example_that_does_not_fit_alone_empties_the_window():
    window = Observed()
    window.push(np.ones(511), 1, None)
    assert window.examples == 1
    window.push(np.ones(512), 1, None)
    assert window.examples == 0
    assert window.least(np.ones(512), 0.0) is None
