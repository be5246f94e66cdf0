"""What every journal promises, checked on each of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from service.errors import UnknownModel
from service.events import (
    ModelCreated,
    ModelDeleted,
    PredictionsExpired,
)
from service.journal.jetstream import predictions as predictions_waiting
from service.journal.protocol import (
    Journal,
    Overdue,
    OwnTime,
    Page,
    Recorded,
    Snapshot,
    Summary,
    Totals,
    WaitingPrediction,
)
from service.journal.sqlite import reading
from tests.journal.journals import LIFE
from tests.journal.samples import created, learned, revealed, waiting

pytestmark = pytest.mark.smoke


async def test_events_are_applied_in_order_once_durable_and_come_back(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, applied):
        await journal.append(created())
        appended = await asyncio.gather(*(journal.append(learned(at), LIFE) for at in range(2, 300)))
        assert [a.applied for a in appended] == [f"applied {a.seq}" for a in appended]
        assert all(a.is_new for a in appended)
        sequence = [seq for seq, _ in applied]
        assert sequence == sorted(set(sequence))
        assert [event.at for _, event in applied] == list(range(1, 300))
        before = applied
    async with opened() as (journal, applied):
        stored = await journal.load("m")
        assert [(r.seq, r.event) for r in stored.tail] == before
        assert applied == [], "what was applied before is not applied again"
        assert (await journal.append(learned(300), LIFE)).seq > before[-1][0]
        assert await journal.events("m", after=before[9][0], limit=3) == [Recorded(*b) for b in before[10:13]]


async def test_the_newest_time_is_told_at_the_start(make: Callable[[], Journal]) -> None:
    for expected, at in ((0, 17), (17, 18), (18, 19)):
        journal = make()
        assert await journal.open(lambda seq, event: None) == expected
        await journal.append(created(f"m{at}", at))
        await journal.close()


async def test_an_id_is_revealed_once(opened: Callable[[], Any]) -> None:
    prediction = waiting("p")
    async with opened() as (journal, applied):
        await journal.append(created())
        await journal.put_pending(prediction, LIFE, wait=True)
        assert await journal.find("p") == WaitingPrediction(prediction, LIFE)
        both = await asyncio.gather(
            journal.append(revealed(prediction, 1), LIFE), journal.append(revealed(prediction, -1), LIFE)
        )
        assert [a.is_new for a in both] == [True, False]
        assert both[0].seq == both[1].seq and both[1].applied is None
        assert len(applied) == 2
        found = await journal.find("p")
        assert found == Recorded(both[0].seq, revealed(prediction, 1))
    async with opened() as (journal, applied):
        again = await journal.append(revealed(prediction, 1), LIFE)
        assert not again.is_new and again.seq == both[0].seq and applied == []
        assert not (await journal.append(learned(5, "p"), LIFE)).is_new
        assert (await journal.load("m")).pending == []


async def test_unknown_ids_are_not_found(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, _):
        assert await journal.find("nobody") is None
        assert await journal.load("nobody") is None
        assert await journal.outcomes("nobody", 1) is None
        assert await journal.events("nobody", after=0, limit=10) == []


async def test_a_model_is_created_once(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, applied):
        both = await asyncio.gather(journal.append(created(at=1)), journal.append(created(at=2)))
        assert [a.is_new for a in both] == [True, False]
        assert [event.at for _, event in applied] == [1]


async def test_a_deleted_model_is_gone_and_can_be_made_again(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, applied):
        await journal.append(created())
        await journal.put_pending(waiting("p"), LIFE, wait=True)
        await journal.append(learned(3, "q"), LIFE)
        journal.save_snapshot(Snapshot("m", LIFE, 2, 1, b"state", b"outcomes"))
        results = await asyncio.gather(
            journal.append(ModelDeleted("m", 4), LIFE),
            journal.append(learned(5), LIFE),
            return_exceptions=True,
        )
        assert results[0].is_new and isinstance(results[1], UnknownModel)
        assert await journal.load("m") is None
        assert await journal.find("p") is None and await journal.find("q") is None
        again = await journal.append(created(at=6))
        assert again.is_new and again.seq > LIFE
        with pytest.raises(UnknownModel):
            await journal.append(learned(7, "q"), LIFE)
        assert (await journal.append(learned(7, "q"), again.seq)).is_new
        assert [event.at for _, event in applied] == [1, 3, 4, 6, 7]
    async with opened() as (journal, _):
        stored = await journal.load("m")
        assert stored.state is None and [r.event.at for r in stored.tail] == [6, 7]
        assert [line.created_at for line in await journal.models(Page())] == [6]


async def test_a_snapshot_shortens_the_tail_and_trims_what_it_covers(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, applied):
        await journal.append(created())
        for version in range(1, 21):
            await journal.append(learned(1 + version, f"q{version}"), LIFE)
            if version % 3 == 0:
                outcomes = f"up to {version}".encode()
                journal.save_snapshot(
                    Snapshot("m", LIFE, applied[-1][0], version, f"state {version}".encode(), outcomes)
                )
        seqs = [seq for seq, _ in applied]
    async with opened() as (journal, _):
        stored = await journal.load("m")
        assert stored.state == b"state 18" and stored.seq == seqs[18]
        assert [r.seq for r in stored.tail] == seqs[19:]
        kept = await journal.events("m", after=0, limit=100)
        assert [r.seq for r in kept] == seqs[13:], "five events and those of their snapshot's interval"
        assert await journal.find("q12") is None
        assert await journal.outcomes("m", seqs[13]) == b"up to 15"
        assert await journal.outcomes("m", seqs[18]) == b"up to 18"
        assert await journal.outcomes("m", seqs[19]) is None


async def test_predictions_that_wait_too_long_are_told_without_their_models(
    opened: Callable[[], Any],
) -> None:
    async with opened() as (journal, _):
        await journal.append(created())
        other = (await journal.append(created("n"))).seq
        for at in range(10, 16):
            await journal.put_pending(waiting(f"p{at}", at), LIFE, wait=True)
            await journal.put_pending(waiting(f"q{at}", at + 100, "n"), other, wait=True)
        assert await journal.overdue(0, 12, 100) == ([Overdue("m", LIFE, 3, 12)], 12)
        await journal.append(revealed(waiting("p10", 10), 1), LIFE)
        await journal.append(PredictionsExpired("m", 200, 1, 11), LIFE)
        found, _ = await journal.overdue(0, 112, 100)
        assert found == [Overdue("m", LIFE, 4, 15), Overdue("n", other, 3, 112)]
        oldest = await journal.overdue(11, 112, 2)
        assert oldest == ([Overdue("m", LIFE, 2, 13)], 13), "the oldest come first"
        assert await journal.overdue(8, 9, 100) == ([], 8)


async def test_predictions_of_models_with_a_time_of_their_own_are_told_apart(
    opened: Callable[[], Any],
) -> None:
    async with opened() as (journal, _):
        await journal.append(created())
        own = (await journal.append(ModelCreated("n", 2, {"pending_ttl_seconds": 60.0}))).seq
        for at in range(10, 13):
            await journal.put_pending(waiting(f"p{at}", at), LIFE, wait=True)
            await journal.put_pending(waiting(f"q{at}", at + 100, "n"), own, wait=True)
        assert (await journal.overdue(0, 200, 100))[0] == [Overdue("m", LIFE, 3, 12)]
        both, through = await journal.overdue(0, 200, 100, own=True)
        assert (both, through) == ([Overdue("m", LIFE, 3, 12), Overdue("n", own, 3, 112)], 112)
        assert await journal.own_times() == [OwnTime("n", own, 60_000_000, 110)]
        assert await journal.overdue_of(own, 111) == (Overdue("n", own, 2, 111), 112)
        await journal.append(PredictionsExpired("n", 200, 2, 111), own)
        assert await journal.overdue_of(own, 111) == (None, 112)
        await journal.append(ModelDeleted("n", 201), own)
        assert await journal.overdue_of(own, 200) == (None, None)
        assert await journal.own_times() == []


async def test_a_load_brings_the_newest_predictions_and_the_times_of_the_others(
    opened: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reading, predictions_waiting):
        monkeypatch.setattr(module, "PENDING_LOADED_MAX", 64)
    async with opened() as (journal, _):
        await journal.append(created())
        for at in range(10, 90):
            await journal.put_pending(waiting(f"p{at}", at), LIFE, wait=True)
        stored = await journal.load("m")
        assert stored is not None
        assert [each.prediction_id for each in stored.pending] == [f"p{at}" for at in range(26, 90)]
        assert [(each.prediction_id, each.at) for each in stored.resting] == [
            (f"p{at}", at) for at in range(10, 26)
        ]


async def test_models_are_listed_by_name(opened: Callable[[], Any]) -> None:
    names = ["b", "a.1", "a.2", "a%", "a_", "A", "a"]
    async with opened() as (journal, _):
        for at, name in enumerate(names):
            await journal.append(created(name, at))

        async def listed(prefix: str, after: str, limit: int) -> list[str]:
            page = Page(prefix, "name", (after, after), limit)
            return [line.model for line in await journal.models(page)]

        assert await listed("", "", 99) == sorted(names)
        assert await listed("a", "", 99) == sorted(n for n in names if n.startswith("a"))
        assert await listed("a.", "a.1", 99) == ["a.2"]
        assert await listed("", "", 2) == sorted(names)[:2]
        assert (await journal.models(Page("b", limit=1)))[0].settings == {"any": "settings"}


async def test_closing_finishes_what_is_queued(opened: Callable[[], Any]) -> None:
    async with opened() as (journal, applied):
        await journal.append(created())
        futures = [journal.append(learned(at), LIFE) for at in range(2, 102)]
    assert all(future.result().is_new for future in futures)
    assert len(applied) == 101


async def test_models_are_listed_by_the_numbers_of_their_summaries(opened: Callable[[], Any]) -> None:
    counts = {"a": (10, 5), "b": (10, 1), "c": (0, 0), "d": (3, 3), "e": (10, 5)}
    async with opened() as (journal, _):
        for at, name in enumerate(counts):
            await journal.append(created(name, at))
        assert await journal.unsummarised() == list(counts)
        summaries = [
            Summary(name, 1 + i, 100 + i, r, m, m, 2, 1, {"a": 0.1, "b": 0.7}.get(name))
            for i, (name, (r, m)) in enumerate(counts.items())
        ]
        await journal.save_summaries(summaries, through=5)
        assert await journal.unsummarised() == []
        assert await journal.totals("") == Totals(5, 33, 14, 14, 10, 5)
        assert await journal.totals("d") == Totals(1, 3, 3, 3, 2, 1)

        async def listed(sort: str, contains: str = "", *, is_reversed: bool = False) -> list[str]:
            """All of them, two by two."""
            names: list[str] = []
            after = None
            while lines := await journal.models(Page("", sort, after, 2, contains, is_reversed)):
                names += [line.model for line in lines]
                after = (lines[-1].key, lines[-1].model)
            return names

        assert await listed("rounds") == ["a", "b", "e", "d", "c"]
        assert await listed("mistakes") == ["a", "e", "d", "b", "c"]
        assert await listed("error_rate") == ["d", "a", "e", "b", "c"]
        assert await listed("ewma_error_rate") == ["d", "b", "e", "a", "c"]
        assert await journal.summary("b") == summaries[1] and await journal.summary("e") == summaries[4]
        assert await listed("updated_at") == ["e", "d", "c", "b", "a"]
        assert await listed("name") == await listed("pending") == ["a", "b", "c", "d", "e"]
        for sort in ("rounds", "mistakes", "error_rate", "ewma_error_rate", "updated_at", "pending", "name"):
            assert await listed(sort, is_reversed=True) == [*reversed(await listed(sort))]
            assert await listed(sort, "d") == ["d"] and await listed(sort, "x") == []
        await journal.append(learned(9, model="b"), 2)
    async with opened() as (journal, _):
        assert await journal.unsummarised() == ["b"]
