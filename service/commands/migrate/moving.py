"""Writes a model to the cluster, reads it again through another replica, and compares to the bit."""

import asyncio
from dataclasses import replace

from service.commands.console import CommandFailed
from service.commands.migrate.source import MovedModel
from service.engine.fleet.restoring import restored_at_once
from service.engine.models.outcomes import OutcomeLog
from service.events import ModelDeleted, Prediction, RoundRevealed, prediction_in
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.protocol import Recorded, Snapshot

AT_ONCE = 500


async def write(journal: JetStreamJournal, moved: MovedModel) -> list[int]:
    """Write a model with its events in their order; their new sequence numbers."""
    name = moved.live.model.name
    created = await journal.append(moved.creation)
    if not created.is_new:
        raise CommandFailed(f"there is a model {name!r} in the cluster already")
    seqs: list[int] = []
    for start in range(0, len(moved.events), AT_ONCE):
        some = [recorded.event for recorded in moved.events[start : start + AT_ONCE]]
        served = [prediction_in(event) for event in some if isinstance(event, RoundRevealed)]
        await _keep(journal, created.seq, served)
        appended = await asyncio.gather(*(journal.append(event, created.seq) for event in some))
        if not all(one.is_new for one in appended):
            raise CommandFailed(f"an event of {name!r} is in the cluster already")
        seqs += [one.seq for one in appended]
    await _keep(journal, created.seq, moved.pending)
    await _save(journal, created.seq, moved, seqs[-1] if seqs else created.seq, _renumbered(moved, seqs))
    journal.save_summaries([replace(moved.live.summary(), life=created.seq)])
    return seqs


async def _keep(journal: JetStreamJournal, life: int, predictions: list[Prediction]) -> None:
    for start in range(0, len(predictions), AT_ONCE):
        some = predictions[start : start + AT_ONCE]
        kept = (journal.put_pending(prediction, life, wait=True) for prediction in some)
        for one in await asyncio.gather(*(future for future in kept if future is not None)):
            if not one.is_new:
                raise CommandFailed("an id is in the cluster already")


async def _save(
    journal: JetStreamJournal, life: int, moved: MovedModel, seq: int, outcomes: OutcomeLog
) -> None:
    model = moved.live.model
    snapshot = Snapshot(model.name, life, seq, model.version, model.to_bytes(), outcomes.tobytes())
    journal.save_snapshot(snapshot, is_whole=moved.is_whole)
    await journal.settle()


def _renumbered(moved: MovedModel, seqs: list[int]) -> OutcomeLog:
    """The outcomes of the events that were moved, with their new sequence numbers."""
    return moved.outcomes.renumbered(
        {recorded.seq: seq for recorded, seq in zip(moved.events, seqs, strict=True)}
    )


async def compare(journal: JetStreamJournal, moved: MovedModel, seqs: list[int]) -> None:
    """CommandFailed unless the cluster has all that was moved, to the bit."""
    name = moved.live.model.name
    stored = await journal.load(name)
    if stored is None or restored_at_once(stored).model.to_bytes() != moved.live.model.to_bytes():
        raise CommandFailed(f"{name!r} is not the same in the cluster")
    waiting = [(each.prediction_id, each.at) for each in moved.pending]
    resting = [(each.prediction_id, each.at) for each in stored.resting]
    if waiting[: len(resting)] != resting or stored.pending != moved.pending[len(resting) :]:
        raise CommandFailed(f"the waiting predictions of {name!r} are not the same in the cluster")
    events = await journal.events(name, after=0, limit=-1)
    expected = [Recorded(seq, recorded.event) for seq, recorded in zip(seqs, moved.events, strict=True)]
    if moved.is_whole:
        expected.insert(0, Recorded(events[0].seq if events else 0, moved.creation))
    if events != expected or any(isinstance(one.event, ModelDeleted) for one in events):
        raise CommandFailed(f"the events of {name!r} are not the same in the cluster")
    if seqs:
        page = await journal.outcomes(name, seqs[0])
        if OutcomeLog(page or b"").tobytes() != _renumbered(moved, seqs).tobytes():
            raise CommandFailed(f"what came of the rounds of {name!r} is not the same in the cluster")
