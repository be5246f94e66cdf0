"""What a model with `ask` tells of the error over all predictions when labels are late, or never come."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from service.engine.fleet.live import Live
from service.engine.models.model import Model, model_from
from service.engine.models.settings import RULES
from service.events import (
    DimensionFixed,
    ModelCreated,
    ModelImported,
    ModelReset,
    ModelRolledBack,
    Prediction,
    PredictionsExpired,
    revealed,
)
from service.journal.codec import encode_state
from service.web.routes.model_settings import ModelLimits, ModelSettings

LIMITS = ModelLimits(1000, 100, 512, 10**7)
BEFORE_RULES = 5
KEY = "secret"


class Stream:
    """Half of the labels are noise; only those are revealed that are asked for, so many predictions later."""

    def __init__(self, rules: int = RULES, **given: Any) -> None:
        settings = ModelSettings(ask={"b": 0.3}, **given).complete(LIMITS) | {"rules": rules}
        self.live = Live(Model(ModelCreated("m", 1, settings, KEY)), 1, 1)
        self.live.knows_all_predictions = True
        self.apply(DimensionFixed("m", 1, 2))
        self.rng = np.random.default_rng(9)
        self.made = deque[tuple[Prediction, int]]()
        self.predictions = self.wrong = 0

    def apply(self, event: Any) -> Any:
        return self.live.apply(self.live.seq + 1, event)

    @property
    def at(self) -> int:
        return self.live.seq + self.predictions + 10

    def predict(self) -> None:
        model, row = self.live.model, self.rng.normal(size=2)
        truth = int(self.rng.choice([-1, 1]))
        chosen, score, certainty = model.predict(row)
        self.predictions += 1
        label, features = model.labels.label(chosen), model.features.encode(row)
        prediction = Prediction(
            f"p{self.predictions}",
            "m",
            self.at,
            features,
            label,
            score,
            model.version,
            model.updates,
            certainty,
        )
        self.wrong += label != truth
        self.live.keep(prediction)
        self.made.append((prediction, truth))

    def settle(self, late: int) -> None:
        """Reveal what was asked for and is older than so many predictions."""
        while len(self.made) > late:
            prediction, truth = self.made.popleft()
            if self.live.model.asked_with(prediction):
                self.apply(revealed(prediction, self.at, truth))

    def run(self, rounds: int, late: int) -> None:
        for _ in range(rounds):
            self.predict()
            self.settle(late)

    def expire(self, *, known: bool = True) -> None:
        """All that waits expires."""
        live, count = self.live, len(self.live.pending)
        if not known:
            live.pending.clear()
            self.apply(PredictionsExpired("m", self.at, count, self.at))
            return
        for prediction in list(live.pending.values()):
            live.drop(prediction.prediction_id, prediction.at)
        asked = sorted(live.dropped_asked.items())
        live.expiring = PredictionsExpired("m", self.at, live.dropped, live.dropped_through, asked)
        self.apply(live.expiring)

    def told(self) -> dict[str, Any]:
        report: dict[str, Any] = self.live.report(self.at)["ask"]
        return report


def check_inside(stream: Stream) -> dict[str, Any]:
    told = stream.told()
    true, interval = stream.wrong / stream.predictions, told["error_rate_interval"]
    assert told["predictions"] == interval["rounds"] == stream.predictions
    assert interval["low"] <= true <= interval["high"]
    return told


@pytest.mark.parametrize("given", [{}, {"learner": {"algorithm": "auto"}}, {"challengers": {"other": {}}}])
def test_labels_that_come_late_are_waited_for(given: Any) -> None:
    stream = Stream(**given)
    stream.run(800, late=400)
    told = check_inside(stream)
    assert told["error_rate"] == pytest.approx(0.5, abs=0.15)
    stream.live.knows_all_predictions = False
    assert stream.told() == {**told, "error_rate_interval": None}
    stream.live.knows_all_predictions = True
    stream.settle(0)
    then = check_inside(stream)
    assert then["asked"] == told["asked"]
    widths = [
        each["error_rate_interval"]["high"] - each["error_rate_interval"]["low"] for each in (then, told)
    ]
    assert widths[0] < widths[1]


def test_a_model_of_before_keeps_its_numbers() -> None:
    stream = Stream(rules=1)
    stream.run(1_500, late=750)
    told = stream.told()
    assert told["error_rate"] < 0.35 and told["predictions"] < stream.predictions
    state = stream.live.model.state()
    assert [state["asking"][name] for name in ("wrong", "right", "lost")] == [[], [], []]


@pytest.mark.parametrize("is_recorded", [True, False])
def test_labels_that_never_come_stay_unknown(is_recorded: bool) -> None:
    stream = Stream()
    stream.run(1_000, late=300)
    before = check_inside(stream)
    if is_recorded:
        stream.expire()
    else:  # given up, and not yet recorded
        for prediction in list(stream.live.pending.values()):
            stream.live.drop(prediction.prediction_id, prediction.at)
    after = check_inside(stream)
    assert after["error_rate_interval"] == before["error_rate_interval"]
    assert (after["asked"] < before["asked"]) == is_recorded


def test_where_it_is_not_known_whether_what_expired_was_asked_for_all_may_have_been() -> None:
    known, unknown = Stream(), Stream()
    for stream, is_known in ((known, True), (unknown, False)):
        stream.run(1_500, late=0)
        stream.expire(known=is_known)
    one, other = (check_inside(stream)["error_rate_interval"] for stream in (known, unknown))
    assert one["low"] == other["low"] and one["high"] < other["high"] < 1.0


def test_a_rollback_an_import_and_a_reset_begin_to_count_again_since_what_waited_is_gone() -> None:
    stream = Stream()
    stream.run(200, late=50)
    state = stream.live.model.to_bytes()
    copy = model_from(ModelImported("copy", stream.at, stream.live.model.settings, state, "m"))
    assert copy.ask_report(0)["predictions"] == 0  # type: ignore[index]
    stream.apply(ModelRolledBack("m", stream.at, stream.live.model.version, state))
    assert stream.told()["predictions"] == 0
    stream.predict()
    late = stream.made.pop()[0]
    stream.apply(ModelReset("m", stream.at, RULES, "another"))
    assert (stream.told()["predictions"], stream.live.model.ask_key) == (0, "another")
    # What was predicted before the reset, and is revealed all the same, is one of many that are not known of.
    stream.apply(revealed(late, stream.at, 1))
    assert stream.told()["predictions"] == 0


def test_a_state_goes_on_to_the_bit_and_one_of_before_the_rules_is_brought_up_to_date() -> None:
    stream = Stream()
    stream.run(300, late=100)
    stream.expire()
    model = stream.live.model
    assert Model.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    before = Stream(rules=1)
    before.run(300, late=100)
    before.expire()
    state = before.live.model.state()
    old = {
        name: value
        for name, value in state["asking"].items()
        if name not in ("wrong", "right", "lost", "expired", "key")
    }
    settings = {name: value for name, value in state["settings"].items() if name != "rules"}
    read = Model.from_bytes(
        encode_state({**state, "settings": settings, "asking": {**old, "b_since": 0}}, BEFORE_RULES)
    )
    assert read.ask_key is None
    assert read.ask_report(0) == before.live.model.ask_report(0)


def test_nobody_can_tell_from_what_is_public_which_labels_will_be_asked_for() -> None:
    settings = Stream().live.model.settings
    model, public = (Model(ModelCreated("m", 1, settings, key)) for key in (KEY, None))
    ids = [f"p{number}" for number in range(200)]
    assert [model.is_asked(each, 0.5) for each in ids] != [public.is_asked(each, 0.5) for each in ids]
