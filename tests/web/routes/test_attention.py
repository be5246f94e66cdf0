"""GET /attention: which models need a look, and why."""

import re
from typing import Any

import numpy as np
import pytest

from service.engine.fleet.attention import LATE_FACTOR, LATE_SECONDS_MIN, RECENT_ROUNDS, reasons_of
from service.engine.fleet.live import Live
from service.engine.models.model import Model
from service.events import (
    DimensionFixed,
    ModelCreated,
    ModelRebuilt,
    Prediction,
    RoundCorrected,
    RoundLearned,
)
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.api_keys import Holder, good, lines_of
from tests.support.markdown import ROOT
from tests.support.service_thread import ServiceThread

LATE_US = int(LATE_SECONDS_MIN * 1e6)


def made(rounds: int, wrong: int, **settings: Any) -> Live:
    """A model with so many rounds, of which the last ones were wrong."""
    complete = ModelSettings(bias=False, **settings).complete(ModelLimits(100, 100, 100, 10**8))
    live = Live(Model(ModelCreated("m", 1, complete)), 1, 1)
    live.apply(2, DimensionFixed("m", 1, 1))
    for number in range(rounds):
        # The weight follows the last mistake, so that labels in turns are always wrong.
        label = 1 if number < rounds - wrong or (rounds - number) % 2 else -1
        live.apply(3 + number, RoundLearned("m", 2 + number, None, label, np.array([1.0]).tobytes()))
    return live


def kinds(live: Live, now: int) -> list[str]:
    return [reason.kind for reason in reasons_of(live, now)]


def test_an_error_that_has_risen_is_told_and_one_that_was_always_high_is_not() -> None:
    assert kinds(made(400, 0), 1000) == []
    assert "error_risen" in kinds(made(400, 60), 1000)
    assert "error_risen" not in kinds(made(400, 400), 1000)
    assert "error_risen" not in kinds(made(RECENT_ROUNDS, 60), 1000)  # too few to compare with


def test_a_model_that_is_rebuilt_after_a_correction_is_told_until_it_is_done() -> None:
    live = made(10, 0)
    correction = RoundCorrected("m", 2000, "c", "r", -1, 1, 5)
    live.model.apply(correction)
    assert kinds(live, 2000) == ["rebuilding"]
    corrected = made(10, 1).model
    corrected.apply(correction)
    live.model.apply(ModelRebuilt("m", 2001, live.model.place, 1, 5, corrected.to_bytes()))
    assert kinds(live, 2001) == []


@pytest.mark.parametrize("rounds", [10, 0], ids=["some labels", "never a label"])
@pytest.mark.parametrize(
    ("times", "wanted"), [(0.5, []), (2, ["labels_stopped"])], ids=["a while", "for long"]
)
def test_labels_that_stopped_coming_are_told_after_a_while(
    times: float, wanted: list[str], rounds: int
) -> None:
    live = made(rounds, 0)
    now = live.model.updated_at + int(times * LATE_US)
    assert kinds(live, now) == []  # nothing waits
    live.keep(Prediction("p", "m", live.model.updated_at, np.array([1.0]).tobytes(), 1, 1.0, 10, 0))
    assert kinds(live, now) == wanted


def test_the_alert_and_the_list_agree_when_labels_have_stopped() -> None:
    (rule,) = re.findall(
        r"alert: NovikoffLabelsStopped.*?for:", (ROOT / "monitoring" / "alerts.yml").read_text(), re.DOTALL
    )
    assert f"oldest_pending_timestamp_seconds > {LATE_SECONDS_MIN:g})" in rule
    assert f"revealed_total[{LATE_SECONDS_MIN / 60:g}m]) == 0" in rule
    assert f"< {LATE_FACTOR:g} * novikoff_model_label_delay_p99_seconds" in rule


def test_each_tenant_hears_of_its_own_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    owner, acme, zeta = (
        Holder("owner", "admin"),
        Holder("acme", "admin", "acme-"),
        Holder("zeta", "read", "zeta-"),
    )
    service = ServiceThread(
        tmp_path_factory.mktemp("tenants") / "data", api_keys=lines_of(owner, acme, zeta)
    ).start()
    try:
        good(acme.at(service).post("/models", {"model": "acme-refuted", "declared_margin": 0.9}))
        for label in (1, -1, 1, -1):
            good(acme.at(service).learn("acme-refuted", [1.0, 0.0], label))
        good(acme.at(service).learn("acme-well", [1.0], 1))
        wanted = {
            "count": 1,
            "models": [
                {
                    "model": "acme-refuted",
                    "reasons": [{"kind": "bound_exceeded", "detail": "the declared margin is refuted"}],
                }
            ],
        }
        for holder in (owner, acme):
            assert good(holder.at(service).get("/attention")) == wanted
        assert good(zeta.at(service).get("/attention")) == {"count": 0, "models": []}
    finally:
        service.close()
