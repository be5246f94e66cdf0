"""Whatever is kept has a version, and there is a step from each version to the next."""

import pytest

from service.engine.models import state_migrations
from service.journal.codec import STATE_VERSION, NewerState, decode_state, encode_state
from service.journal.jetstream import format as stream_format
from service.journal.sqlite import schema
from service.learning.statistics import Statistics


def test_there_is_a_step_from_each_version_to_the_next() -> None:
    assert [*state_migrations.STEPS] == [*range(1, STATE_VERSION)]
    assert [*schema.STEPS] == [*range(1, schema.SCHEMA_VERSION)]
    assert [*stream_format.STEPS] == [*range(1, stream_format.FORMAT_VERSION)]


def test_a_state_of_version_1_is_brought_up_to_date_and_one_of_this_version_is_not_touched() -> None:
    state = {"name": "m", "stepped_from": None}
    assert state_migrations.read_state(encode_state(state)) == state
    assert state_migrations.read_state(encode_state({"name": "m"}, version=1)) == {
        "name": "m",
        "stepped_from": 1,
    }


def test_a_fit_of_version_1_is_brought_up_to_date() -> None:
    features, classifier = encode_state({"size": 3}, version=1), encode_state({"weights": 4}, version=1)
    assert state_migrations.read_fit(features, classifier) == ({"size": 3}, {"weights": 4})


def test_a_state_of_a_newer_version_is_refused_by_its_name() -> None:
    with pytest.raises(NewerState, match=f"state version {STATE_VERSION + 1}, and this program supports"):
        decode_state(encode_state({}, version=STATE_VERSION + 1))
    for no_state in (b"", b"\x00"):
        with pytest.raises(ValueError, match="it is no state"):
            decode_state(no_state)


def test_a_statistic_that_an_older_state_lacks_begins_anew_and_the_others_go_on() -> None:
    stepped = state_migrations.step_up(1, {"settings": {}, "statistics": {"revealed": 5, "mistakes": 2}})[
        "statistics"
    ]
    expected = {"revealed": 5, "mistakes": 2}
    assert stepped == {**Statistics().state(), **expected}
