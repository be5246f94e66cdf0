"""What a test needs and this machine may not have."""

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test and say what is missing; with CI=true that is a failure, so that nothing is left out unseen."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
