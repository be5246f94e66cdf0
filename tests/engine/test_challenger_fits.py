"""Fits of models with challengers: they are of the champion."""

from service.engine.models.model import Model
from service.events import ModelFitted
from service.journal.codec import encode_state
from tests.engine.test_challengers import AROW, made, own_bytes, promote
from tests.support.doctored_exports import NOW
from tests.support.late_labels import Late, run


def test_a_fit_for_a_champion_that_was_demoted_meanwhile_changes_nothing() -> None:
    stream = Late(made(challengers={"arow": AROW}))
    run(stream, 50, [-1, 1])  # type: ignore[list-item]
    model = stream.model
    parts = (encode_state(model.features.state()), encode_state(model.classifier.state()))
    fit = ModelFitted("m", NOW * 2, "job", [-1, 1], *parts, {}, 0)
    promote(stream, "arow")
    before = own_bytes(model)
    stream.apply(fit)
    assert own_bytes(model) == before and model.origin == "promoted"
    promote(stream, "original")
    stream.apply(fit)
    assert model.origin == "fitted"


def test_a_fit_that_fixes_the_dimension_fixes_that_of_the_challengers() -> None:
    fitted = made(4)
    run(Late(fitted), 20, [-1, 1])  # type: ignore[list-item]
    parts = (encode_state(fitted.features.state()), encode_state(fitted.classifier.state()))
    stream = Late(made(None, challengers={"arow": AROW}))
    stream.apply(ModelFitted("m", NOW, "job", [-1, 1], *parts, {}, 0))
    stream.learn([1.0, 2.0, 3.0, 4.0], 1)
    assert stream.model.contest is not None
    assert stream.model.contest.challengers["arow"].classifier.shape == (2, 5)
    assert Model.from_bytes(stream.model.to_bytes()).to_bytes() == stream.model.to_bytes()
