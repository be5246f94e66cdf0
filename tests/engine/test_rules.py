"""Which set of rules the fold of a model computes by: the number that the model was made with, or reset with."""

from typing import Any

import pytest

from service.engine.models.model import Model, model_from
from service.engine.models.settings import RULES
from service.engine.replay.counterfactual import Counterfactual
from service.engine.transfer.json_export import _digest, import_model
from service.errors import InvalidExport
from service.events import DimensionFixed, ModelCreated, ModelImported, ModelReset, ModelRolledBack
from service.journal.codec import decode_event, encode, encode_state
from service.web.routes.model_settings import ModelSettings
from tests.support.doctored_exports import LIMITS, NOW, with_digest
from tests.support.exporting import export_model, plain
from tests.support.late_labels import Late

BEFORE_RULES = 5
"""The last version of state that did not have them."""


def settings() -> dict[str, Any]:
    return ModelSettings(labels=["a", "b"]).complete(LIMITS)


def old_settings() -> dict[str, Any]:
    return {name: value for name, value in settings().items() if name != "rules"}


def story(first: ModelCreated) -> Late:
    stream = Late(Model(first))
    stream.events.append(first)
    stream.apply(DimensionFixed("m", 1, 2))
    for number in range(20):
        stream.learn([1.0, number % 3 - 1.0], "ab"[number % 2])
    return stream


def rules_of(model: Model) -> int:
    return model.settings["rules"]  # type: ignore[no-any-return]


def test_a_new_model_has_the_newest_rules_and_one_of_before_them_the_first() -> None:
    assert rules_of(Model(ModelCreated("m", 1, settings()))) == RULES
    assert rules_of(Model(ModelCreated("m", 1, old_settings()))) == 1


def test_a_reset_takes_the_rules_that_its_event_has_and_one_of_before_them_has_the_first() -> None:
    model = Model(ModelCreated("m", 1, old_settings()))
    old = decode_event(encode(["reset", "m", 2]))
    model.apply(old)
    assert rules_of(model) == 1
    model.apply(ModelReset("m", 3, RULES))
    assert rules_of(model) == RULES
    assert rules_of(Model.from_bytes(model.to_bytes())) == RULES


def test_a_state_of_before_the_rules_has_the_first() -> None:
    model = Model(ModelCreated("m", 1, old_settings()))
    state = {**model.state(), "settings": old_settings()}
    assert Model.from_bytes(encode_state(state, BEFORE_RULES)).to_bytes() == model.to_bytes()


def test_an_export_and_a_fork_carry_the_rules() -> None:
    for given in (settings(), old_settings()):
        model = story(ModelCreated("m", 1, given)).model
        imported = import_model(export_model(model), LIMITS, NOW)
        assert imported.settings["rules"] == rules_of(model)
        for origin in (None, "m"):
            copy = model_from(ModelImported("copy", 9, *imported, origin))
            assert rules_of(copy) == rules_of(model)


def test_an_export_of_before_the_rules_has_the_first() -> None:
    state = {**story(ModelCreated("m", 1, old_settings())).model.state(), "bound": None}
    state["settings"] = old_settings()
    head = {"format": f"novikoff-model/{BEFORE_RULES}", "digest": _digest(state, BEFORE_RULES)}
    assert import_model({**head, **plain(state)}, LIMITS, NOW).settings["rules"] == 1


@pytest.mark.parametrize("rules", [0, RULES + 1, True, 1.0, None, "1"])
def test_an_export_with_rules_that_are_not_known_is_refused(rules: Any) -> None:
    export = export_model(Model(ModelCreated("m", 1, settings())))
    export["settings"] = {**export["settings"], "rules": rules}
    with pytest.raises(InvalidExport, match=r"settings\.rules"):
        import_model(with_digest(export), LIMITS, NOW)


def test_a_rollback_to_before_a_reset_has_the_rules_of_then() -> None:
    stream = story(ModelCreated("m", 1, old_settings()))
    to, state = stream.model.version, stream.model.to_bytes()
    stream.apply(ModelReset("m", stream.at + 1, RULES))
    stream.apply(ModelRolledBack("m", stream.at + 2, to, state))
    assert rules_of(stream.model) == 1


def test_a_what_if_with_the_same_settings_becomes_the_live_model_though_a_reset_has_brought_other_rules() -> (
    None
):
    stream = story(ModelCreated("m", 1, old_settings()))
    stream.apply(ModelReset("m", stream.at + 1, RULES))
    for number in range(20):
        stream.learn([1.0, number % 3 - 1.0], "ab"[number % 2])
    history = Counterfactual(None, [stream.model.settings])
    history.play(stream.events)
    (world,) = history.others
    assert world.model.to_bytes() == stream.model.to_bytes()
