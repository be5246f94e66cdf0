"""Reporting drifts to people: a line in the log and an event in the audit trail. The statistics need neither."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from service.engine.fleet.live import Live
from service.errors import Overloaded
from service.events import DriftDetected
from service.journal.protocol import Appended, Journal

log = logging.getLogger(__name__)


def report_drift(journal: Journal, live: Live, at: int, number: int, count: int) -> None:
    """Record that the error rose with round `number`, for the `count`th time.

    Every replica that has the model loaded does so; the key makes all reports but the first a repetition.
    """
    model = live.model
    resets = model.version - model.revealed
    key = f"drift:{model.name}:{model.created_at}:{resets}:{count}"
    fields = {"model": model.name, "round": number, "drifts": count}
    log.warning("drift: the error of %s rose at round %d", model.name, number, extra=fields)
    with suppress(Overloaded):
        recorded = journal.append(DriftDetected(model.name, at, key, number), live.life)
        live.pins += 1
        recorded.add_done_callback(partial(_recorded, live))


def _recorded(live: Live, recorded: asyncio.Future[Appended]) -> None:
    live.pins -= 1
    if recorded.exception() is not None:
        log.warning("the drift of %s is not in the journal: %s", live.model.name, recorded.exception())
