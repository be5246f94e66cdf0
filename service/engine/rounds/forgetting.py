"""Forgetting: what carries a tag becomes as if it had never been, and goes from the journal."""

import msgspec

from novikoff.schemas import TAG_CHARS_MAX
from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.fold import all_events, model_of
from service.engine.fleet.large_models import ModelLock
from service.engine.fleet.live import Live
from service.engine.names import check_text
from service.engine.replay.past import Past
from service.engine.replay.playing import milestone_before
from service.engine.replay.rebuilds import Rebuilds
from service.engine.rounds.retries import IdLocks
from service.errors import ForgetUnsupported, InvalidRequest
from service.events import PredictionVoided, RoundCorrected, RoundLearned, RoundRevealed, TagForgotten
from service.journal.protocol import Eraser, Erasure, Journal, Recorded

EVENTS_MAX = 100_000
"""What one forgetting may erase: the model keeps their numbers until it is done."""


class Forgotten(msgspec.Struct, frozen=True):
    """What a tag was on."""

    model: str
    rounds: int
    predictions: int
    """Predictions that were pending, or expired and still remembered."""


class Found:
    """The events that a tag is on, and those about them."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.ids: set[str | None] = set()
        self.events: list[int] = []
        self.rounds = 0
        self.through = 0
        """The last event that was looked at."""

    def look_at(self, recorded: Recorded) -> None:
        event = recorded.event
        self.through = recorded.seq
        if isinstance(event, RoundRevealed | RoundLearned) and event.tag == self._tag:
            self.events.append(recorded.seq)
            self.rounds += 1
            if event.prediction_id is not None:
                self.ids.add(event.prediction_id)
        elif isinstance(event, PredictionVoided) and event.tag == self._tag:
            self.events.append(recorded.seq)
            self.ids.add(event.prediction_id)
        elif isinstance(event, RoundCorrected) and event.corrects in self.ids:
            self.events.append(recorded.seq)
        if len(self.events) > EVENTS_MAX:
            raise InvalidRequest.at("tag", f"is on more than {EVENTS_MAX} rounds of this model")


class Forgetting:
    """One at a time for each model."""

    def __init__(self, journal: Journal, fleet: Fleet, past: Past, rebuilds: Rebuilds, clock: Clock) -> None:
        self._journal = journal
        self._fleet = fleet
        self._past = past
        self._rebuilds = rebuilds
        self._clock = clock
        self._locks = IdLocks()

    async def forget(self, name: str, tag: str) -> Forgotten:
        """Begin to forget. The rest is done in the background, and taken up again after a kill."""
        check_text("tag", tag, TAG_CHARS_MAX)
        await self._fleet.get(name)
        eraser = self._journal.eraser
        if eraser is None:
            raise ForgetUnsupported(
                "streams created by an older version cannot forget: void the rounds, and see docs/scaling.md"
            )
        async with self._locks.held(name):
            live = await self._fleet.get(
                name
            )  # it may have been unloaded, or created again, while this waited
            with live.pinned():
                return await self._forget(eraser, live, tag)

    async def _forget(self, eraser: Eraser, live: Live, tag: str) -> Forgotten:
        found = Found(tag)
        await self._look(live, found)
        tagged = await eraser.tagged(live.life, tag)
        async with ModelLock(live):  # nothing with this tag may come between looking and saying so
            await self._journal.settle()
            self._fleet.check_loaded(live)
            more = await eraser.tagged(live.life, tag, tagged.through)
            await self._look(live, found)
            version = await self._version(live, found)
            predictions = await self._void(eraser, live, tagged.predictions | more.predictions, found)
            if await self._look(live, found):  # labels that came to other replicas meanwhile
                version = await self._version(live, found)
            event = TagForgotten(
                live.model.name, self._clock.now(), sorted(found.events), found.rounds, version
            )
            await self._fleet.submit(live, event)
        self._rebuilds.start(live.model.name)
        return Forgotten(live.model.name, found.rounds, predictions)

    async def _look(self, live: Live, found: Found) -> int:
        """Look at the events since the last look; how many rounds with the tag are among them."""
        before = found.rounds
        async for recorded in all_events(self._journal, live.model.name, found.through):
            found.look_at(recorded)
        return found.rounds - before

    async def _version(self, live: Live, found: Found) -> int:
        return await self._version_before(live, min(found.events)) + 1 if found.rounds else 0

    async def _version_before(self, live: Live, seq: int) -> int:
        """The version of the newest milestone before an event from which the model can be rebuilt."""
        model = live.model
        version = model.version
        while (milestone := await milestone_before(self._journal, model, version)) is not None:
            then = await model_of(self._journal, milestone) or model
            if milestone.seq < seq:
                return then.version
            version = then.version - 1
        raise await self._past.gone(model.name, 0)

    async def _void(self, eraser: Eraser, live: Live, tagged: dict[str, int], found: Found) -> int:
        """Let predictions with the tag wait no longer, and let nothing be known of those that had expired."""
        gone: list[str] = []
        for prediction_id, made_at in tagged.items():
            if prediction_id in found.ids:
                continue
            if live.awaits(prediction_id) or made_at > live.voided_through:
                event = PredictionVoided(live.model.name, self._clock.now(), prediction_id)
                appended = await self._fleet.submit(live, event)
                if not appended.is_new and not await self._is_voided(live, prediction_id):
                    continue  # its label has come to another replica a moment ago
                found.events.append(appended.seq)
            gone.append(prediction_id)
        await eraser.erase(Erasure(live.life, [], [], (0, 0), gone, is_whole=False))
        return len(gone)

    async def _is_voided(self, live: Live, prediction_id: str) -> bool:
        """Whether a prediction that has an event already was voided, and not revealed."""
        recorded = await self._journal.recorded(live.life, prediction_id)
        return recorded is not None and isinstance(recorded.event, PredictionVoided)
