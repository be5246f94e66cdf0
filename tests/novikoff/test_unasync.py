"""The waiting client is the awaited one, written once."""

import pytest

from tests.novikoff.unasync import SOURCE, TARGET, waiting


@pytest.mark.slow
def test_the_waiting_client_is_made_from_the_awaited_one() -> None:
    assert TARGET.read_text() == waiting(SOURCE.read_text()), "run `make client`"


def test_the_waiting_client_says_where_it_comes_from_and_nothing_in_it_awaits() -> None:
    text = TARGET.read_text()
    assert "Made from async_client.py" in text.splitlines()[0]
    assert "async" not in text.split("\n", 1)[1].lower() and "await" not in text
