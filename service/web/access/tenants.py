"""Tenants: the engine for a caller whose key is restricted to a prefix. Other models, predictions and jobs are absent.

Whether a model is the caller's is decided by its name alone, before anything is looked up, so that no answer depends
on what other tenants have. Prediction ids that such callers choose are stored with their prefix: two tenants may both
choose `order-17`, and neither can find out that the other did.
"""

from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from msgspec import structs

from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.fleet.shared_totals import FoundTotals
from service.engine.models.checks import Sent
from service.engine.models.model import Model
from service.engine.models.outcomes import BlockOutcome, Round
from service.engine.models.settings import ModelLimits
from service.engine.names import check_name, made_at
from service.engine.rounds.blocks import Begun, Blocks, Errors
from service.engine.rounds.explanation import Answered
from service.engine.rounds.rounds import Rounds
from service.engine.transfer.transfer import Imported
from service.errors import NovikoffError, PredictionExpired, PredictionUnderWay, UnknownPrediction
from service.events import Label
from service.journal.protocol import Listed, Page, Recorded, Totals
from service.learning.vectors import Array, Rows
from service.web.access.callers import (
    OWNER_SEPARATOR,
    check_known,
    check_own,
    prefix,
    restricted_key,
)
from service.web.access.keys import Key


class TenantRounds:
    """Rounds of the caller's models. For an unrestricted key, the engine's own coroutines: that costs no time."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def predict(
        self, name: str, sent: Sent, prediction_id: str | None, terms: int = 0, tag: str | None = None
    ) -> Coroutine[Any, Any, Answered]:
        _check_chosen(prediction_id)
        key = restricted_key()
        if key is None:
            return self._rounds.predict(name, sent, prediction_id, terms, tag)
        return self._predict(key, name, sent, prediction_id, terms, tag)

    def dry_run(self, name: str, sent: Sent, terms: int = 0) -> Coroutine[Any, Any, Answered]:
        check_own(name)
        return self._rounds.dry.predict(name, sent, terms)

    def reach(self, name: str, version: int) -> Coroutine[Any, Any, None]:
        if restricted_key() is not None:
            check_own(name)
        return self._rounds.reach(name, version)

    def reveal(
        self, prediction_id: str, label: Label, weight: float = 1.0, model: str | None = None
    ) -> Coroutine[Any, Any, Round]:
        """With a `model`, predictions of any other are unknown."""
        key = restricted_key()
        if key is None:
            return self._rounds.reveal(prediction_id, label, weight, model=model)
        return self._reveal(key, prediction_id, label, weight, model)

    def learn(
        self,
        name: str,
        sent: Sent,
        label: Label,
        prediction_id: str | None,
        weight: float = 1.0,
        tag: str | None = None,
    ) -> Coroutine[Any, Any, Round]:
        _check_chosen(prediction_id)
        key = restricted_key()
        if key is None:
            return self._rounds.learn(name, sent, label, prediction_id, weight, tag)
        return self._learn(key, name, sent, label, prediction_id, weight, tag)

    async def _predict(
        self, key: Key, name: str, sent: Sent, chosen: str | None, terms: int, tag: str | None
    ) -> Answered:
        check_own(name)
        with with_public_ids(key):
            done = await self._rounds.predict(name, sent, _stored_id(key, chosen), terms, tag)
        public = _public_id(key, done.prediction.prediction_id)
        return structs.replace(done, prediction=structs.replace(done.prediction, prediction_id=public))

    async def _learn(
        self,
        key: Key,
        name: str,
        sent: Sent,
        label: Label,
        chosen: str | None,
        weight: float,
        tag: str | None,
    ) -> Round:
        check_own(name)
        with with_public_ids(key):
            done = await self._rounds.learn(name, sent, label, _stored_id(key, chosen), weight, tag)
        return structs.replace(done, prediction_id=_public_id(key, done.prediction_id))

    async def _reveal(
        self, key: Key, prediction_id: str, label: Label, weight: float, model: str | None
    ) -> Round:
        """The id may be chosen by the caller, made by the service, or chosen by a caller with an unrestricted key."""
        chosen = id_of_caller(key, prediction_id)
        with with_public_ids(key):
            try:
                done = await self._rounds.reveal(chosen, label, weight, prefix=key.prefix, model=model)
            except (UnknownPrediction, PredictionUnderWay, PredictionExpired) as error:
                if chosen == prediction_id:
                    raise
                try:
                    done = await self._rounds.reveal(
                        prediction_id, label, weight, prefix=key.prefix, model=model
                    )
                except UnknownPrediction:
                    raise error from None
        return structs.replace(done, prediction_id=_public_id(key, done.prediction_id))


class TenantBlocks:
    """Runs of whole rounds of the caller's models."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    @property
    def keep_order(self) -> bool:
        return self._blocks.keep_order

    def at_once(self, name: str, features: list[Sent] | Rows) -> int:
        return self._blocks.at_once(name, features)

    def begin(self, name: str, features: list[Sent] | Rows, labels: list[Label]) -> Begun | None:
        check_own(name)
        return self._blocks.begin(name, features, labels)

    async def learn(
        self, name: str, features: list[Sent], labels: list[Label]
    ) -> tuple[BlockOutcome | None, Errors]:
        check_own(name)
        return await self._blocks.learn(name, features, labels)

    def learn_arrays(
        self, name: str, blocks: AsyncIterable[tuple[Array, list[Label]]]
    ) -> AsyncIterator[BlockOutcome]:
        check_own(name)
        return self._blocks.learn_arrays(name, blocks)


class TenantModels:
    """The caller's models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def get(self, name: str) -> Live:
        check_known(name)
        return await self._models.get(name)

    async def create(self, name: str, settings: dict[str, Any]) -> Live:
        check_own(name)
        return await self._models.create(name, settings)

    async def adopt(self, name: str, imported: Imported) -> Live:
        check_own(name)
        return await self._models.adopt(name, imported.settings, imported.state)

    async def salvage(self, name: str) -> tuple[Model, str]:
        check_known(name)
        return await self._models.salvage(name)

    async def reset(self, name: str) -> Live:
        check_known(name)
        return await self._models.reset(name)

    async def add_challenger(self, name: str, challenger: str, given: Any, limits: ModelLimits) -> Live:
        check_known(name)
        return await self._models.add_challenger(name, challenger, given, limits)

    async def remove_challenger(self, name: str, challenger: str) -> Live:
        check_known(name)
        return await self._models.remove_challenger(name, challenger)

    async def promote(self, name: str, challenger: str) -> Live:
        check_known(name)
        return await self._models.promote(name, challenger)

    async def rule_promotion(self, name: str, promote: Any) -> Live:
        check_known(name)
        return await self._models.rule_promotion(name, promote)

    async def delete(self, name: str) -> None:
        check_known(name)
        await self._models.delete(name)

    async def page(self, page: Page) -> list[Listed]:
        narrowed = _narrowed(page.prefix)
        if narrowed is None:
            return []
        return await self._models.page(replace(page, prefix=narrowed))

    def why_unreadable(self, line: Listed) -> str | None:
        return self._models.why_unreadable(line)

    async def totals(self, wanted: str) -> Totals:
        narrowed = _narrowed(wanted)
        return Totals(0, 0, 0, 0, 0, 0) if narrowed is None else await self._models.totals.now(narrowed)

    async def paced_totals(self) -> FoundTotals:
        """Totals of all the caller's models, for feeds."""
        return await self._models.totals.paced(prefix())

    async def events(self, name: str, *, after: int, limit: int) -> list[Recorded]:
        check_known(name)
        return await self._models.events(name, after=after, limit=limit)

    async def events_of(
        self, name: str, kinds: frozenset[str], *, after: int, limit: int
    ) -> tuple[list[Recorded], int | None]:
        check_known(name)
        return await self._models.events_of(name, kinds, after=after, limit=limit)


def public_id(prediction_id: str) -> str:
    """An id as the caller knows it."""
    return prediction_id.removeprefix(prefix() + OWNER_SEPARATOR)


def _check_chosen(prediction_id: str | None) -> None:
    """InvalidRequest for an id with OWNER_SEPARATOR, which the engine would take for a tenant's."""
    if prediction_id is not None and OWNER_SEPARATOR in prediction_id:
        check_name("id", prediction_id)


def _stored_id(key: Key, chosen: str | None) -> str | None:
    return f"{key.prefix}{OWNER_SEPARATOR}{chosen}" if chosen is not None else None


def id_of_caller(key: Key, prediction_id: str) -> str:
    """As an id is stored that the caller has chosen, or one that the service has made."""
    if made_at(prediction_id) is None:
        return f"{key.prefix}{OWNER_SEPARATOR}{prediction_id}"
    return prediction_id


def _public_id(key: Key, prediction_id: str | None) -> Any:
    return prediction_id and prediction_id.removeprefix(key.prefix + OWNER_SEPARATOR)


@contextmanager
def with_public_ids(key: Key) -> Iterator[None]:
    """Remove the prefix from ids in the messages of errors."""
    try:
        yield
    except NovikoffError as error:
        error.detail = error.detail.replace(f"'{key.prefix}{OWNER_SEPARATOR}", "'")
        raise


def _narrowed(wanted: str) -> str | None:
    """The prefix of the models that are both wanted and the caller's; None if there can be none."""
    own = prefix()
    if wanted.startswith(own):
        return wanted
    return own if own.startswith(wanted) else None
