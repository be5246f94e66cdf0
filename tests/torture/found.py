"""The truth about a directory that was not recorded from its beginning: what the service finds in it."""

from pathlib import Path

from service.engine.engine import Engine
from service.events import RoundLearned, RoundRevealed
from service.journal.protocol import Page
from service.journal.sqlite.journal import SqliteJournal
from tests.torture.engines import Plan, engine_over, journal_at
from tests.torture.truth import Finished, Life, Truth


async def truth_about(directory: Path, plan: Plan) -> Truth:
    """Open a directory, with nothing cut off, and look at everything."""
    truth = Truth(plan.events_kept_max)
    journal = journal_at(directory, plan)
    engine = engine_over(journal, plan)
    await engine.open()
    newest = 0
    for listed in await engine.models.page(Page(limit=1000)):
        newest = max(newest, await _look_at(engine, journal, listed.model, truth))
    truth.acknowledge(0, newest)
    await engine.close()
    return truth


async def _look_at(engine: Engine, journal: SqliteJournal, name: str, truth: Truth) -> int:
    live = await engine.models.get(name)
    life = truth.lives[live.life] = Life(name, 0)
    life.seqs = sorted({live.life, live.seq})
    life.states = [live.model.to_bytes()] * len(life.seqs)
    life.versions = [live.model.version] * len(life.seqs)
    life.voided_through = [live.voided_through] * len(life.seqs)
    for recorded in await journal.events(name, after=0, limit=-1):
        event = recorded.event
        if isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id is not None:
            first = await engine.rounds.reveal(event.prediction_id, event.label)
            assert first.replayed
            life.finished[event.prediction_id] = Finished(recorded.seq, event, first.outcome)
    for prediction in live.pending.values():
        truth.predictions[prediction.prediction_id] = (0, prediction)
    return live.seq
