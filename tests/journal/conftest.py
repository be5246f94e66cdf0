"""The journal of a test, of each kind that there is."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.events import AnyEvent
from service.journal.protocol import Journal
from tests.journal.journals import JOURNALS

Applied = list[tuple[int, AnyEvent]]


@pytest.fixture(params=JOURNALS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Makes the journal of this test, again and again the same."""
    return JOURNALS[request.param](request, tmp_path / "data")


@pytest.fixture
def opened(make: Callable[[], Journal]) -> Callable[[], Any]:
    """Opens the journal of this test; gives it and what it has applied."""

    @asynccontextmanager
    async def open_one() -> AsyncIterator[tuple[Journal, Applied]]:
        journal = make()
        applied: Applied = []

        def apply(seq: int, event: AnyEvent) -> str:
            applied.append((seq, event))
            return f"applied {seq}"

        await journal.open(apply)
        try:
            yield journal, applied
        finally:
            await journal.close()

    return open_one
