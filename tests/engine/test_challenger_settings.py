"""Which challengers a model takes: settings that fit its examples, and no more than its limits allow."""

from typing import Any

import pytest

from service.engine.models.challenger_settings import complete_new
from service.engine.models.sizes import bytes_in_memory
from service.errors import InvalidRequest
from service.events import DimensionFixed
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.engine.test_challengers import AROW, LIMITS, add, made
from tests.support.late_labels import Late


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"learner": {"algorithm": "nobody"}}, "learner.algorithm"),
        ({"learner": {"algorithm": "arow", "r": -1.0}}, "learner.r"),
        ({"features": "named"}, "features.kind"),
        ({"features": {"dimension": 7}}, "features.dimension"),
        ({"features": {"fourier": {"features": 0}}}, "features.fourier.features"),
        ({"learner": {"algorithm": "auto"}, "features": {"standardize": True}}, "features.standardize"),
        ({"multiclass": "multiclass", "learner": {"algorithm": "pa"}}, "multiclass"),
    ],
    ids=str,
)
def test_a_challenger_that_does_not_fit_is_refused_by_the_field(given: dict[str, Any], field: str) -> None:
    for refuse, prefix in (
        (lambda: made(features={"dimension": 4}, challengers={"c": given}), "challengers.c."),
        (lambda: complete_new("c", given, made(features={"dimension": 4}), LIMITS), ""),
    ):
        with pytest.raises(InvalidRequest) as refused:
            refuse()
        assert [each.field for each in refused.value.fields] == [prefix + field]


def test_there_are_at_most_eight_and_all_together_have_to_fit_the_limits() -> None:
    many = {f"c{number}": {} for number in range(8)}
    model = made(challengers=many)
    assert 8 * 4096 < bytes_in_memory(model) - bytes_in_memory(made()) < 8 * 8192
    with pytest.raises(InvalidRequest, match="limit reached"):
        complete_new("c9", {}, model, LIMITS)
    with pytest.raises(InvalidRequest, match="at most 8"):
        made(challengers={**many, "c9": {}})
    small = ModelLimits(1000, 100, 512, 1000)
    settings = ModelSettings(features={"dimension": 300}, challengers={"a": {}, "b": {}})
    assert settings.complete(small)
    settings = ModelSettings(features={"dimension": 300}, challengers={"a": {}, "b": {}, "c": {}})
    with pytest.raises(InvalidRequest, match="challengers: with them it could exceed 1000 weights"):
        settings.complete(small)


def test_who_joins_while_the_first_example_is_on_its_way_goes_if_it_is_too_small_for_it() -> None:
    stream = Late(made(None))
    full = {"learner": {"algorithm": "arow", "covariance": "full"}}
    add(stream, "small", **full)
    add(stream, "other", **AROW)
    stream.apply(DimensionFixed("m", stream.at, 600))
    assert list(stream.model.settings["challengers"]) == ["other"]
    again = made(None)
    for event in stream.events:
        again.apply(event)
    assert again.to_bytes() == stream.model.to_bytes()
    with pytest.raises(InvalidRequest, match="too long"):
        complete_new("small", full, stream.model, LIMITS)


def test_crosses_of_names_cannot_join_later_since_older_examples_may_be_too_long() -> None:
    crossed = {"features": {"kind": "named", "names_max": 6, "crosses": 2}}
    model = made(None, features={"kind": "named", "names_max": 20}, challengers={"crossed": crossed})
    assert complete_new("more", crossed, model, LIMITS)["features"]["crosses"] == 2
    with pytest.raises(InvalidRequest, match="when the model is created"):
        complete_new("more", crossed, made(None, features={"kind": "named", "names_max": 20}), LIMITS)
