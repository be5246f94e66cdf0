"""Kinds of models over the journals: every kind over SQLite, some over NATS as well.

To a journal an event is bytes, and by `tests/journal/test_journal_laws.py` either gives them back as they came. So a
kind that is replayed right from one of them is from the other, if any kind is: which a few are there to see.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def over_journals(
    argument: str, kinds: Iterable[Any], *, on_cluster: Sequence[Any], ids: Any = None
) -> pytest.MarkDecorator:
    """Run a test with each kind as this argument over SQLite, and with those `on_cluster` over NATS."""
    pairs = [("sqlite", kind) for kind in kinds] + [("jetstream", kind) for kind in on_cluster]
    return pytest.mark.parametrize(("journal", argument), pairs, indirect=["journal"], ids=ids)
