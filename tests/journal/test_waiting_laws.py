"""What every journal promises of predictions that wait for their labels."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from service.events import ModelReset, PredictionsExpired
from service.journal.protocol import Recorded, WaitingPrediction
from tests.journal.journals import LIFE
from tests.journal.samples import created, revealed, waiting

pytestmark = pytest.mark.smoke


async def test_waiting_predictions_come_back_until_voided(opened: Callable[[], Any]) -> None:
    predictions = [waiting(f"p{at}", at) for at in range(10, 20)]
    async with opened() as (journal, _):
        await journal.append(created())
        for prediction in predictions:
            journal.put_pending(prediction, LIFE, wait=False)
        stored = await journal.load("m")
        assert stored.pending == predictions, "loading sees what was queued before"
        await journal.append(PredictionsExpired("m", 21, 4, 13), LIFE)
    async with opened() as (journal, _):
        assert (await journal.load("m")).pending == predictions[4:]
        found = [await journal.find(f"p{at}") for at in (11, 12, 13)]
        expected = [WaitingPrediction(prediction, LIFE) for prediction in predictions[1:4]]
        assert found[1:] == expected[1:], "the newest expired ones are remembered"
        assert found[0] in (None, expected[0]), "older ones need not be"
        await journal.append(ModelReset("m", 22), LIFE)
        assert (await journal.load("m")).pending == []


async def test_what_is_revealed_waits_no_more_whether_it_was_on_disk_or_not(
    opened: Callable[[], Any],
) -> None:
    at_once, on_its_way, on_disk = waiting("at-once", 10), waiting("on-its-way", 11), waiting("on-disk", 12)
    async with opened() as (journal, _):
        await journal.append(created())
        journal.put_pending(on_disk, LIFE, wait=False)
        await journal.settle()
        kept = journal.put_pending(on_its_way, LIFE, wait=True)
        journal.put_pending(at_once, LIFE, wait=False)
        predictions = (at_once, on_its_way, on_disk)
        done = await asyncio.gather(*(journal.append(revealed(each, 1), LIFE) for each in predictions))
        assert [each.is_new for each in done] == [True, True, True]
        await kept
        await journal.settle()
    async with opened() as (journal, _):
        assert (await journal.load("m")).pending == []
        for each in predictions:
            assert isinstance(await journal.find(each.prediction_id), Recorded)
