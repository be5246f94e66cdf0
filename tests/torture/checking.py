"""Opens a directory with the service's own code and compares what it serves with the truth.

Each directory has to end in one of two ways: every acknowledged round is there, to the bit, and the rest at most once;
or the service refuses, and names the damage. Anything else is `Wrong`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from service.engine.engine import Engine
from service.engine.fleet.live import Live
from service.engine.models.checks import Sent
from service.engine.models.model import Model
from service.engine.models.outcomes import Round
from service.errors import PredictionExpired, StartError, Unavailable, UnknownModel, UnknownPrediction
from service.events import AnyEvent, Prediction
from service.journal.protocol import Page, Recorded, WaitingPrediction
from service.journal.sqlite.journal import SqliteJournal
from tests.torture.engines import Plan, engine_over, journal_at
from tests.torture.truth import Life, Truth

T = TypeVar("T")

TRIED = 4
"""How many rounds are sent again, and how many predictions revealed, of each model."""

MODELS_TRIED = 10

RESTARTED = 0.3
"""The share of directories that are opened a second time."""


class Wrong(AssertionError):
    """The service serves something that is not the truth, and says nothing."""


def demand(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Wrong(otherwise)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refusals` is empty if all was served."""

    refusals: list[str]


async def check_directory(
    directory: Path, plan: Plan, truth: Truth, at: int, chance: random.Random
) -> Verdict:
    """Open a directory that was cut off at this place of the log; Wrong unless it is as it should be."""
    try:
        new: list[tuple[int, AnyEvent]] = []
        journal = journal_at(directory, plan, lambda seq, event: new.append((seq, event)))
        engine = engine_over(journal, plan)
        await engine.open()
    except StartError as error:
        return Verdict([error.detail])
    checks = Checks(engine, journal, plan, new, truth, at, chance)
    await checks.compare_models()
    await checks.compare_ids()
    await checks.go_on()
    served = {name: live.model.to_bytes() for name, live in checks.served.items()}
    try:
        await engine.close()
        if chance.random() < RESTARTED:
            await check_restart(directory, plan, served)
    except (StartError, Unavailable) as error:
        checks.refusals.append(error.detail)
    return Verdict(checks.refusals)


async def check_restart(directory: Path, plan: Plan, served: dict[str, bytes]) -> None:
    """What was served is served again after a clean stop."""
    engine = engine_over(journal_at(directory, plan), plan)
    await engine.open()
    for name, state in served.items():
        try:
            again = await engine.models.get(name)
        except UnknownModel:
            raise Wrong(f"{name} is not there after a restart") from None
        demand(again.model.to_bytes() == state, f"{name} is another after a restart")
    await engine.close()


class Checks:
    def __init__(
        self,
        engine: Engine,
        journal: SqliteJournal,
        plan: Plan,
        new: list[tuple[int, AnyEvent]],
        truth: Truth,
        at: int,
        chance: random.Random,
    ) -> None:
        """`new`: where events are added that come from now on."""
        self._engine = engine
        self._new = new
        self._journal = journal
        self._plan = plan
        self._truth = truth
        self._at = at
        self._chance = chance
        self._reached = truth.acknowledged(at)
        """Up to which event the directory has come: at least this far."""
        self.refusals: list[str] = []
        self.served: dict[str, Live] = {}
        self._unreadable: set[str] = set()

    async def compare_models(self) -> None:
        """Every model that has to be there is, as it was after the last event that is there."""
        for name in sorted({life.name for life in self._truth.lives.values()}):
            try:
                self.served[name] = await self._engine.models.get(name)
            except UnknownModel:
                pass
            except Unavailable as error:
                self._refused(error)
                self._unreadable.add(name)
        self._see_how_far()
        living = dict(self._truth.living_at(self._reached))
        for live in self.served.values():
            demand(live.life in living, f"{live.model.name} is there, and ought not to be")
        for number, life in self._readable():
            live = self.served.get(life.name)  # type: ignore[assignment]
            demand(live is not None and live.life == number, f"{life.name} is not there")
            place = life.place(self._reached)
            demand(
                live.seq == life.seqs[place],
                f"{life.name} ends with event {live.seq} and not with {life.seqs[place]}",
            )
            demand(live.model.to_bytes() == life.states[place], f"{life.name} is not what its events make")
        await self._compare_list()
        self._newest = self._reached

    def _see_how_far(self) -> None:
        """What was not acknowledged may be there, but then all before it, too."""
        reached = [
            self._reached,
            *(live.seq for live in self.served.values() if live.life in self._truth.lives),
        ]
        self._reached = max(reached)
        for number, life in self._readable():
            live = self.served.get(life.name)
            if life.ended is not None and (live is None or live.life != number):
                self._reached = max(self._reached, life.ended)

    def _readable(self) -> Iterator[tuple[int, Life]]:
        living = list(self._truth.living_at(self._reached))
        return ((number, life) for number, life in living if life.name not in self._unreadable)

    async def _compare_list(self) -> None:
        try:
            listed = {one.model for one in await self._engine.models.page(Page(limit=1000))}
        except Unavailable as error:
            self._refused(error)
        else:
            expected = {life.name for _, life in self._truth.living_at(self._reached)}
            demand(
                listed - self._unreadable == expected - self._unreadable,
                f"{listed} are listed, not {expected}",
            )

    async def compare_ids(self) -> None:
        """Every id is what it was: no round would be learned again, and no prediction is unknown."""
        for number, life in self._readable():
            for identity, finished in life.finished.items():
                if finished.seq > self._reached:
                    continue
                found = await self._find(identity)
                if found is REFUSED or (
                    found is None and not self._truth.has_to_know(life, finished, self._reached)
                ):
                    continue
                demand(
                    found == Recorded(finished.seq, finished.event),
                    f"{identity} was learned with event {finished.seq}, and {found} is there",
                )
            for prediction in self._waiting(number, life):
                found = await self._find(prediction.prediction_id)
                demand(
                    found is REFUSED or found == WaitingPrediction(prediction, number),
                    f"{prediction.prediction_id} ought to wait, and {found} is there",
                )

    def _waiting(self, number: int, life: Life, *, voided: bool = False) -> Iterator[Prediction]:
        """The predictions of a model that wait for their labels; or those that never can have one."""
        voided_through = life.voided_through[life.place(self._reached)]
        for prediction in self._truth.served_before(self._at):
            if self._truth.life_of(prediction) != number:
                continue
            finished = life.finished.get(prediction.prediction_id)
            if (finished is None or finished.seq > self._reached) and voided == (
                prediction.at <= voided_through
            ):
                yield prediction

    async def _find(self, identity: str) -> object:
        try:
            return await self._journal.find(identity)
        except Unavailable as error:
            return self._refused(error)

    def _refused(self, error: Unavailable) -> object:
        self.refusals.append(error.detail)
        return REFUSED

    async def go_on(self) -> None:
        """Whatever clients send next is answered as if nothing had happened."""
        for number, life in self._some(list(self._readable()), MODELS_TRIED):
            try:
                await self._go_on_with(number, life)
            except Unavailable as error:
                self._refused(error)

    async def _go_on_with(self, number: int, life: Life) -> None:
        known = [one for one in life.finished.values() if one.seq <= self._reached]
        known = [one for one in known if self._truth.has_to_know(life, one, self._reached)]
        for finished in self._some(known):
            assert finished.event.prediction_id is not None
            again = await self._engine.rounds.reveal(finished.event.prediction_id, finished.event.label)
            demand(again.replayed, f"{again.prediction_id} was learned again")
            demand(
                again.outcome == finished.outcome, f"{again.prediction_id} gets another answer than before"
            )
        model = Model.from_bytes(life.states[life.place(self._reached)])
        label = model.labels.values[0] if model.labels.values else "a"
        for prediction in self._some(list(self._waiting(number, life))):
            revealed = await self._engine.rounds.reveal(prediction.prediction_id, label)
            await self._compare_round(model, revealed)
            if not self._plan.events_kept_max:
                continue  # nothing is promised to those who send it again
            again = await self._engine.rounds.reveal(prediction.prediction_id, label)
            demand(
                again == replace(revealed, replayed=True),
                f"{again.prediction_id} was learned again",
            )
        for prediction in self._some(list(self._waiting(number, life, voided=True))):
            try:
                await self._engine.rounds.reveal(prediction.prediction_id, label)
            except (PredictionExpired, UnknownPrediction):  # the latter once others are remembered instead
                continue
            raise Wrong(f"{prediction.prediction_id} was void, and is learned")
        is_dense = model.settings["features"]["kind"] == "dense"
        example: Sent = [1.0, 2.0, 3.0] if is_dense else {"first": 1.0}
        new = await self._engine.rounds.learn(life.name, example, label, f"new-{life.name}")
        await self._compare_round(model, new)
        if self._chance.random() < 0.2:
            version = self.served[life.name].model.version
            await self._engine.models.reset(life.name)
            self.served[life.name] = await self._engine.models.get(life.name)
            demand(self.served[life.name].model.version == version + 1, f"{life.name} was not reset")

    async def _compare_round(self, model: Model, done: Round) -> None:
        """A new round is what its event makes of the model, and its number was never given before."""
        demand(not done.replayed, f"{done.prediction_id} was there before it was sent")
        outcome = None
        while self._new:
            seq, event = self._new.pop(0)
            demand(seq > self._newest, f"number {seq} is given again after {self._newest}")
            self._newest = seq
            if event.model == model.name:
                applied = model.apply(event)
                if getattr(event, "prediction_id", None) == done.prediction_id:
                    outcome = applied
        demand(outcome == done.outcome, f"{done.prediction_id} gets a wrong answer")
        self.served[done.model] = await self._engine.models.get(done.model)

    def _some(self, of: list[T], most: int = TRIED) -> list[T]:
        return self._chance.sample(of, min(most, len(of)))


REFUSED = object()
"""What a refused question is answered with."""
