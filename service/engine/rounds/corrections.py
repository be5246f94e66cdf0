"""Corrections of finished rounds, and predictions that do not count."""

import msgspec

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.models.amendments import DUE_MAX
from service.engine.models.checks import NONE_NEW, check_label
from service.engine.models.labels import same
from service.engine.names import check_text
from service.engine.replay.past import Past
from service.engine.replay.playing import milestone_before
from service.engine.replay.rebuilds import Rebuilds
from service.engine.rounds.retries import correction_key, is_void
from service.engine.rounds.rounds import Rounds
from service.errors import NotRevealed, Overloaded, UnknownPrediction
from service.events import Label, Prediction, PredictionVoided, RoundCorrected, RoundLearned, RoundRevealed
from service.journal.protocol import Journal, Recorded

REASON_CHARS_MAX = 256


class Corrected(msgspec.Struct, frozen=True):
    """A correction as its client sees it."""

    prediction_id: str
    model: str
    label: Label | None
    """The right one; None if the round or the prediction is voided."""
    former: Label | None
    """The one before; None if there was none."""
    reason: str | None
    is_new: bool
    """False if the same was said before."""
    is_rebuilding: bool
    """Whether the model is yet to become what it should be."""


class Corrections:
    """Turns them into durable events. A rebuild follows in the background."""

    def __init__(
        self, journal: Journal, fleet: Fleet, rounds: Rounds, past: Past, rebuilds: Rebuilds, clock: Clock
    ) -> None:
        self._journal = journal
        self._fleet = fleet
        self._rounds = rounds
        self._past = past
        self._rebuilds = rebuilds
        self._clock = clock

    async def correct(
        self, prediction_id: str, label: Label, reason: str | None, *, prefix: str = ""
    ) -> Corrected:
        """Give a finished round another label; only of models whose names begin with `prefix`."""
        if reason is not None:
            check_text("reason", reason, REASON_CHARS_MAX)
        async with self._rounds.locks.held(prediction_id):
            found = await self._find(prediction_id, prefix)
            if not isinstance(found, Recorded):
                raise NotRevealed(
                    f"prediction {prediction_id!r} has no label yet; reveal it with POST /feedback"
                )
            return await self._amend(found, label, reason)

    async def void(self, prediction_id: str, *, prefix: str = "") -> Corrected:
        """Let a prediction not count, or a finished round."""
        async with self._rounds.locks.held(prediction_id):
            found = await self._find(prediction_id, prefix)
            if not isinstance(found, Recorded):
                live, prediction = found
                event = PredictionVoided(prediction.model, self._clock.now(), prediction_id, prediction.tag)
                appended = await self._fleet.append(live, event)
                if appended.is_new:
                    return Corrected(prediction_id, prediction.model, None, None, None, True, False)
                found = await self._rounds.replays.recorded(prediction_id)  # revealed or voided a moment ago
            if isinstance(found.event, PredictionVoided):
                return Corrected(prediction_id, found.event.model, None, None, None, False, False)
            return await self._amend(found, None, None)

    async def _find(self, prediction_id: str, prefix: str) -> tuple[Live, Prediction] | Recorded:
        live = self._fleet.waiting.get(prediction_id)
        if live is not None and live.model.name.startswith(prefix):
            return live, live.pending[prediction_id]
        return await self._rounds.locate(prediction_id, prefix, expected=True)

    async def _amend(self, found: Recorded, label: Label | None, reason: str | None) -> Corrected:
        event = found.event
        if isinstance(event, PredictionVoided):
            raise is_void(event.prediction_id)
        assert isinstance(event, RoundRevealed | RoundLearned) and event.prediction_id is not None
        live = await self._fleet.get(event.model)
        with live.pinned():
            while True:
                done = await self._try(live, found.seq, event, label, reason)
                if done is not None:
                    return done

    async def _try(
        self,
        live: Live,
        seq: int,
        event: RoundRevealed | RoundLearned,
        label: Label | None,
        reason: str | None,
    ) -> Corrected | None:
        """None if another replica has corrected the same round at the same moment: then it is to be seen anew."""
        name, prediction_id = event.model, event.prediction_id
        assert prediction_id is not None
        if seq in live.model.erasing:  # a correction would keep the id
            raise UnknownPrediction(f"prediction {prediction_id!r} is forgotten")
        last = await self._rounds.replays.last_correction(live, event)
        former = event.label if last is None else last.label
        if former is None and label is not None:
            raise is_void(prediction_id)
        if (former is None and label is None) or (
            former is not None and label is not None and same(former, label)
        ):
            return self._told(
                live, prediction_id, former, former if last is None else last.former, reason, False
            )
        version = (await self._rounds.replays.outcome(live, seq, event)).version
        await self._check_kept(live, version)
        amended = live.model.amended
        if amended is not None and len(amended.due) >= DUE_MAX:
            raise Overloaded(
                f"{len(amended.due)} corrections of {name!r} are pending a rebuild; try again later"
            )
        new = NONE_NEW if label is None else check_label(live.model, label, live.new_labels)
        number = 1 if last is None else int(last.prediction_id.rpartition(" ")[2]) + 1
        key = correction_key(prediction_id, number)
        correction = RoundCorrected(
            name, self._clock.now(), key, prediction_id, label, former, version, reason
        )
        appended = await self._fleet.append(live, correction, new)
        if not appended.is_new:
            return None
        self._rebuilds.start(name)
        return self._told(live, prediction_id, label, former, reason, True)

    async def _check_kept(self, live: Live, version: int) -> None:
        """VersionGone if the model cannot be made again as it was before a round."""
        if await milestone_before(self._journal, live.model, version - 1) is None:
            raise await self._past.gone(live.model.name, version - 1)

    def _told(
        self, live: Live, prediction_id: str, label: Label | None, former: Label | None, reason: str | None,
        is_new: bool,
    ) -> Corrected:  # fmt: skip
        amended = live.model.amended
        is_due = amended is not None and amended.is_due
        return Corrected(prediction_id, live.model.name, label, former, reason, is_new, is_due)
