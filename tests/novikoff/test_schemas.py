"""Limits that the shapes state are those that the service keeps."""

import re

from novikoff import schemas
from service.engine.names import SERVER_MARK
from service.learning.parameters import LEAST


def test_the_document_states_the_limits_of_the_engine() -> None:
    assert schemas.WEIGHT_MIN == LEAST
    made, chosen = f"0198c0ffee00{SERVER_MARK}8c2b", "0198c0ffee00-8c2b"
    assert re.fullmatch(schemas.PREDICTION_ID_PATTERN, made) and re.fullmatch(
        schemas.PREDICTION_ID_PATTERN, chosen
    )
    assert not re.fullmatch(schemas.NAME_PATTERN, made) and re.fullmatch(schemas.NAME_PATTERN, chosen)
