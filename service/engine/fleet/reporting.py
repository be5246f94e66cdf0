"""Reporting drifts and promotions to people: a line in the log and an event in the audit trail. No model needs them."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from service.engine.fleet.live import Live
from service.errors import Overloaded
from service.events import ChallengerPromoted, DriftDetected
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
    _record(journal, live, DriftDetected(model.name, at, key, number), "drift")


def report_promotions(journal: Journal, live: Live, at: int, known: int) -> None:
    """Record the promotions that evidence has brought about, of those after the first `known`.

    They are done: the reveal did it, on every replica. Their keys make all reports but the first a repetition.
    """
    model = live.model
    contest = model.contest
    if contest is None:
        return
    first = contest.promotions - len(contest.last_promotions) + 1
    for count, done in enumerate(contest.last_promotions, first):
        if count <= known or not done.by_evidence:
            continue
        key = f"promotion:{model.name}:{model.created_at}:{count}"
        if model.amended is not None:  # a rebuild may recount
            key += f":{model.version - model.revealed}"
        fields = {"model": model.name, "round": done.round, "challenger": done.challenger}
        log.warning(
            "promotion: %s serves %s from round %d on", done.challenger, model.name, done.round, extra=fields
        )
        event = ChallengerPromoted(model.name, at, done.challenger, done.former, done.round, key)
        _record(journal, live, event, "promotion")


def _record(journal: Journal, live: Live, event: DriftDetected | ChallengerPromoted, what: str) -> None:
    with suppress(Overloaded):
        recorded = journal.append(event, live.life)
        live.submitted = journal.submitted
        live.pins += 1
        recorded.add_done_callback(partial(_recorded, live, what))


def _recorded(live: Live, what: str, recorded: asyncio.Future[Appended]) -> None:
    live.pins -= 1
    if recorded.exception() is not None:
        log.warning("the %s of %s is not in the journal: %s", what, live.model.name, recorded.exception())
