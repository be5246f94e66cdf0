"""From where the history of a model can be replayed: every journal keeps sparse snapshots, and says what is gone."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from service.events import ModelCreated, ModelDeleted, RoundLearned
from service.journal import thinning
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.protocol import Journal, Milestone, Snapshot
from tests.journal.journals import jetstream_options, sqlite_at

pytestmark = pytest.mark.smoke

EVERY = 5
EVENTS = 150
KEPT = 100
STATE_BYTES = 1_000


@pytest.fixture(params=["sqlite", "jetstream"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Opens the journal of this test with room for so many snapshots."""
    prefix = f"t{os.urandom(6).hex()}"

    @asynccontextmanager
    async def open_one(room: int = 32, kept: int = KEPT) -> AsyncIterator[Journal]:
        size = (STATE_BYTES + 100) * room
        journal: Journal
        if request.param == "sqlite":
            journal = sqlite_at(tmp_path / "data", events_kept_max=kept, history_bytes_max=size)
        else:
            options = jetstream_options(request.getfixturevalue("nats_server"), prefix)
            journal = JetStreamJournal(replace(options, events_kept_max=kept, history_bytes_max=size))
        await journal.open(lambda seq, event: None)
        try:
            yield journal
        finally:
            await journal.close()

    return open_one


def state(version: int, size: int = STATE_BYTES) -> bytes:
    return str(version).encode().ljust(size)


async def filled(
    journal: Journal, *, events: int = EVENTS, size: int = STATE_BYTES, needed: int | None = None
) -> dict[int, int]:
    """A model whose every event raises its version, with snapshots; the number of each event by its version."""
    made = await journal.append(ModelCreated("m", 1, {"any": "settings"}))
    numbers = {0: made.seq}
    for version in range(1, events + 1):
        event = RoundLearned("m", version, None, 1, b"features")
        numbers[version] = (await journal.append(event, made.seq)).seq
        if version % EVERY == 0:
            due = needed if needed is not None and version > needed else None
            kept = Snapshot("m", made.seq, numbers[version], version, state(version, size), b"", due)
            journal.save_snapshot(kept)
            await journal.settle()
    return numbers


async def replayed(journal: Journal, milestone: Milestone) -> list[int]:
    """The numbers of all events after a milestone, read a few at a time."""
    found: list[int] = []
    after = milestone.seq
    while page := await journal.history(milestone, after=after, limit=7):
        found += [recorded.seq for recorded in page]
        after = found[-1]
    return found


@pytest.mark.slow
async def test_every_version_that_is_kept_has_a_milestone_near_before_it(opened: Callable[..., Any]) -> None:
    async with opened() as journal:
        numbers = await filled(journal)
    async with opened() as journal:
        oldest = await journal.milestone("m", None)
        assert oldest is not None and oldest.state is not None
        first = int(oldest.state)
        assert EVENTS - KEPT <= first <= EVENTS - 0.75 * KEPT
        for version in range(first, EVENTS + 1):
            milestone = await journal.milestone("m", version)
            assert milestone is not None and milestone.state is not None
            begins = int(milestone.state)
            assert numbers[begins] == milestone.seq and begins <= version
            assert version - begins <= max(2 * EVERY, (EVENTS - version) / 4 + EVERY)
            assert await replayed(journal, milestone) == [numbers[v] for v in range(begins + 1, EVENTS + 1)]


async def test_of_older_versions_there_is_none_or_one_that_is_later(opened: Callable[..., Any]) -> None:
    async with opened() as journal:
        await filled(journal)
        oldest = await journal.milestone("m", None)
        for version in range(int(oldest.state)):
            found = await journal.milestone("m", version)
            assert found is None or found == oldest
        assert await journal.milestone("nobody", 3) is None
        assert await journal.milestone("nobody", None) is None


async def test_an_untrimmed_history_begins_with_the_event_that_made_the_model(
    opened: Callable[..., Any],
) -> None:
    async with opened(kept=1_000) as journal:
        numbers = await filled(journal, events=30)
        life = numbers[0]
        assert await journal.milestone("m", None) == Milestone(life, 0, None)
        for version in range(EVERY):
            milestone = await journal.milestone("m", version)
            assert milestone == Milestone(life, 0, None)
        assert await replayed(journal, milestone) == list(numbers.values())


@pytest.mark.parametrize("room", [2, 3, 6])
async def test_snapshots_take_no_more_than_they_may(opened: Callable[..., Any], room: int) -> None:
    async with opened(room=room, kept=1_000) as journal:
        await filled(journal)
        found = {(await journal.milestone("m", version)).seq for version in range(EVENTS + 1)}
        assert len(found - {0}) <= room


@pytest.mark.parametrize("room", [2, 32])
async def test_what_a_rebuild_needs_stays_up_to_as_many_events_again(
    opened: Callable[..., Any], room: int
) -> None:
    async with opened(room=room, kept=40) as journal:
        numbers = await filled(journal, events=110, needed=47)
        milestone = await journal.milestone("m", 47)
        assert milestone is not None and int(milestone.state) == 45
        assert await replayed(journal, milestone) == [numbers[version] for version in range(46, 111)]


async def test_what_a_rebuild_needs_does_not_stay_for_ever(opened: Callable[..., Any]) -> None:
    async with opened(kept=40) as journal:
        await filled(journal, events=150, needed=47)
        oldest = await journal.milestone("m", None)
        assert 150 - 2 * 40 <= int(oldest.state) < 150 - 40


async def test_events_that_go_meanwhile_are_told(opened: Callable[..., Any]) -> None:
    async with opened() as journal:
        numbers = await filled(journal, events=40)
        beginning = await journal.milestone("m", None)
        assert beginning.state is None
        for version in range(41, 2 * EVENTS):
            event = RoundLearned("m", version, None, 1, b"features")
            seq = (await journal.append(event, numbers[0])).seq
            if version % EVERY == 0:
                journal.save_snapshot(Snapshot("m", numbers[0], seq, version, state(version), b""))
                await journal.settle()
        assert await journal.history(beginning, after=0, limit=7) is None
        assert await journal.history(beginning, after=numbers[20], limit=7) is None
        newest = await journal.milestone("m", 2 * EVENTS)
        await journal.append(ModelDeleted("m", 9_999), numbers[0])
        assert await journal.history(newest, after=newest.seq, limit=7) is None


@pytest.mark.slow
async def test_large_snapshots_are_kept_and_dropped_with_all_their_parts(
    opened: Callable[..., Any],
) -> None:
    size = 600_000
    async with opened(room=3_000, kept=1_000) as journal:  # for five of these
        await filled(journal, size=size)
        for version in range(EVENTS + 1):
            milestone = await journal.milestone("m", version)
            assert milestone.state is None or milestone.state == state(int(milestone.state), size)


@pytest.mark.parametrize("every", [1, 10, 1_000])
@pytest.mark.parametrize("most", [3, 8, 32])
def test_thinning_again_and_again_keeps_gaps_in_proportion(every: int, most: int) -> None:
    versions: list[int] = []
    for newest in range(0, 400 * every, every):
        versions.append(newest)
        versions = [versions[place] for place in thinning.kept(versions, most)]
        assert len(versions) <= most and versions[0] == 0 and newest in versions
        assert newest - every in versions or newest == 0
        if most == 32:
            for older, younger in pairwise(versions):
                assert younger - older <= max(every, (newest - younger) / 2)
