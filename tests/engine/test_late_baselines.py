"""The no-change baseline where labels come late: it answers with the last label that was known at the prediction."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from service.engine.models.model import Model
from service.engine.models.settings import RULES
from service.events import DimensionFixed, ModelCreated, ModelReset
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.late_labels import Late
from tests.support.tiers import slow

LIMITS = ModelLimits(1000, 100, 512, 10**7)
LABELS = ["a", "b", "c"]
RUN = 100
"""For so many predictions the true label stays the same."""


def story(rules: int = RULES, **given: Any) -> Late:
    settings = ModelSettings(labels=LABELS, **given).complete(LIMITS) | {"rules": rules}
    stream = Late(Model(ModelCreated("m", 1, settings)))
    stream.apply(DimensionFixed("m", 1, 2))
    return stream


def run_late(stream: Late, delay: int, rounds: int = 2_000) -> float:
    """Serve predictions whose labels come so many predictions later; the error of the baseline, by its definition."""
    rng = np.random.default_rng(7)
    truths = [LABELS[number // RUN % 3] for number in range(rounds)]
    known, answers, wrong = LABELS[0], deque[str](), 0
    for number in range(rounds + delay):
        if number < rounds:
            stream.predict(rng.normal(size=2).tolist())
            answers.append(known)
        if number >= delay:
            known = truths[number - delay]
            wrong += answers.popleft() != known
            stream.reveal(0, known)
    return wrong / rounds


@pytest.mark.parametrize(
    "given", [{}, slow({"learner": {"algorithm": "auto"}}), {"challengers": {"other": {}}}]
)
def test_with_late_labels_the_baseline_answers_with_the_last_label_that_was_known(given: Any) -> None:
    for delay in (0, 1, RUN // 2):
        stream = story(**given)
        expected = run_late(stream, delay, 600)
        baselines = stream.model.report(stream.at)["baselines"]
        assert baselines["no_change_error_rate"] == pytest.approx(expected)


def test_labels_half_a_run_late_make_it_wrong_half_of_the_time_and_not_once_in_a_run() -> None:
    stream, before = story(), story(rules=1)
    expected = run_late(stream, RUN // 2)
    run_late(before, RUN // 2)
    now = stream.model.report(stream.at)["baselines"]
    assert now["no_change_error_rate"] == pytest.approx(expected) and 0.4 < expected < 0.6
    # A model of before keeps its number, which used labels that came after the prediction.
    was = before.model.report(before.at)["baselines"]
    assert was["no_change_error_rate"] == pytest.approx((2_000 // RUN - 1) / 2_000)
    assert now["kappa_t"] > was["kappa_t"]
    error = stream.model.mistakes / 2_000
    assert now["kappa_t"] == pytest.approx(1 - error / expected)


def test_a_label_that_crosses_a_reset_is_compared_with_the_first_class() -> None:
    stream = story()
    stream.learn([1.0, 0.0], "c")
    stream.predict([1.0, 0.0])
    stream.apply(ModelReset("m", stream.at + 1, RULES))
    stream.at += 1
    stream.reveal(0, "c")
    assert stream.model.report(stream.at)["baselines"]["no_change_error_rate"] == 1.0


def test_whole_rounds_are_answered_with_the_label_before() -> None:
    stream = story()
    for label in ("a", "b", "b", "c"):
        stream.learn([1.0, 0.0], label)
    assert stream.model.report(stream.at)["baselines"]["no_change_error_rate"] == 0.5
