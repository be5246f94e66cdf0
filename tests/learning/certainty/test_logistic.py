"""The logistic function without an exponential function."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.learning.functions import STEEPEST, logistic, logistic_of_all


@given(st.floats(-STEEPEST, STEEPEST))
def test_it_is_the_logistic_function(x):
    assert logistic(x) == pytest.approx(1 / (1 + np.exp(-x)), rel=1e-7)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_many_at_once_are_the_same_to_the_bit_and_never_0_or_1(xs):
    together = logistic_of_all(np.array(xs)).tolist()
    assert together == [logistic(x) for x in xs]
    assert all(1e-7 < p < 1 - 1e-7 for p in together)


def test_it_rises():
    values = logistic_of_all(np.linspace(-STEEPEST, STEEPEST, 100_001))
    assert (np.diff(values) > 0).all()
