"""Tenants: callers whose key is restricted to models with a prefix. Other models, predictions and jobs are absent.

Whether a model is the caller's depends on its name only, before anything is looked up, so that no response depends
on what other tenants have. `check_path` does it for every route with a model in its path; what names a model elsewhere
calls `check_known` or `check_own`. Prediction ids that such callers choose are stored with their prefix: two tenants
may both choose `order-17`, and neither can find out that the other did.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from msgspec import structs

from service.engine.models.checks import Sent
from service.engine.models.outcomes import Round
from service.engine.names import check_name, made_at
from service.engine.rounds.corrections import Corrected, Corrections
from service.engine.rounds.explanation import Answered
from service.engine.rounds.rounds import Rounds
from service.errors import (
    Forbidden,
    NovikoffError,
    PredictionExpired,
    PredictionUnderWay,
    Unauthorized,
    UnknownJob,
    UnknownModel,
    UnknownPrediction,
)
from service.events import Label
from service.web.access.declarations import Access
from service.web.access.keys import Key

T = TypeVar("T", Round, Corrected)

caller: ContextVar[Key | None] = ContextVar("caller", default=None)
"""The key of the request, set by the gate; None where no key is needed."""

NO_LONGER_VALID = "this API key is no longer valid"

OWNER_SEPARATOR = "/"
"""Stands between a key's prefix and an id that its holder chose; neither can contain it."""


def restricted_key() -> Key | None:
    """The caller's key if it is restricted to a prefix, else None; Unauthorized if it was revoked meanwhile."""
    key = caller.get()
    if key is None:
        return None
    if key.revoked:
        raise Unauthorized(NO_LONGER_VALID)
    return key if key.prefix else None


@contextmanager
def told_of_revocation(tell: Callable[[], None]) -> Iterator[None]:
    """`tell` is called if the caller's key is revoked meanwhile."""
    key = caller.get()
    if key is None:
        yield
        return
    key.when_revoked.add(tell)
    try:
        yield
    finally:
        key.when_revoked.discard(tell)


def prefix() -> str:
    """The prefix of the models that the caller may see; empty for all."""
    key = restricted_key()
    return key.prefix if key is not None else ""


def check_known(model: str) -> None:
    """UnknownModel for a model that is not the caller's, whether it exists or not."""
    if not model.startswith(prefix()):
        raise UnknownModel(f"there is no model {model!r}")


def check_own(model: str) -> None:
    """Forbidden for creating or teaching a model that is not the caller's, whether it exists or not."""
    key = restricted_key()
    if key is not None and not model.startswith(key.prefix):
        raise Forbidden(f"this API key is limited to models whose names begin with {key.prefix!r}")


def check_known_job(job_id: str, model: str) -> None:
    if not model.startswith(prefix()):
        raise UnknownJob(f"there is no job {job_id!r}")


async def check_path(request: Request) -> None:
    """A dependency of every route: a model in the path has to be one of the caller's."""
    model = request.path_params.get("model")
    if model is not None:
        declared: Access = request.scope["route"].endpoint.access
        (check_own if declared.makes_model else check_known)(model)


def narrowed(wanted: str) -> str | None:
    """The prefix of the models that are both wanted and the caller's; None if there can be none."""
    own = prefix()
    if wanted.startswith(own):
        return wanted
    return own if own.startswith(wanted) else None


# Prediction ids


def public_id(prediction_id: str) -> str:
    """An id as the caller knows it."""
    return prediction_id.removeprefix(prefix() + OWNER_SEPARATOR)


class TenantRounds:
    """Rounds of the caller's models."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    async def predict(
        self, name: str, sent: Sent, chosen: str | None, terms: int = 0, tag: str | None = None
    ) -> Answered:
        _check_chosen(chosen)
        key = restricted_key()
        if key is None:
            return await self._rounds.predict(name, sent, chosen, terms, tag)
        check_own(name)
        with _public_ids(key):
            done = await self._rounds.predict(name, sent, _stored_id(key, chosen), terms, tag)
        public = _public_id(key, done.prediction.prediction_id)
        return structs.replace(done, prediction=structs.replace(done.prediction, prediction_id=public))

    def dry_run(self, name: str, sent: Sent, terms: int = 0) -> Coroutine[Any, Any, Answered]:
        check_own(name)
        return self._rounds.dry.predict(name, sent, terms)

    def reach(self, name: str, version: int) -> Coroutine[Any, Any, None]:
        check_own(name)
        return self._rounds.reach(name, version)

    async def learn(
        self,
        name: str,
        sent: Sent,
        label: Label,
        chosen: str | None,
        weight: float = 1.0,
        tag: str | None = None,
    ) -> Round:
        _check_chosen(chosen)
        key = restricted_key()
        if key is None:
            return await self._rounds.learn(name, sent, label, chosen, weight, tag)
        check_own(name)
        with _public_ids(key):
            done = await self._rounds.learn(name, sent, label, _stored_id(key, chosen), weight, tag)
        return structs.replace(done, prediction_id=_public_id(key, done.prediction_id))

    async def reveal(
        self, prediction_id: str, label: Label, weight: float = 1.0, model: str | None = None
    ) -> Round:
        """With a `model`, predictions of any other are unknown."""

        def do(stored_id: str, prefix: str = "") -> Awaitable[Round]:
            return self._rounds.reveal(stored_id, label, weight, prefix=prefix, model=model)

        return await _by_public_id(prediction_id, do)


class TenantCorrections:
    """Corrections of the caller's rounds."""

    def __init__(self, corrections: Corrections) -> None:
        self._corrections = corrections

    async def correct(self, prediction_id: str, label: Label, reason: str | None) -> Corrected:
        def do(stored_id: str, prefix: str = "") -> Awaitable[Corrected]:
            return self._corrections.correct(stored_id, label, reason, prefix=prefix)

        return await _by_public_id(prediction_id, do)

    async def void(self, prediction_id: str) -> Corrected:
        def do(stored_id: str, prefix: str = "") -> Awaitable[Corrected]:
            return self._corrections.void(stored_id, prefix=prefix)

        return await _by_public_id(prediction_id, do)


def _check_chosen(prediction_id: str | None) -> None:
    """InvalidRequest for an id with OWNER_SEPARATOR, which the engine would take for a tenant's."""
    if prediction_id is not None and OWNER_SEPARATOR in prediction_id:
        check_name("id", prediction_id)


def _stored_id(key: Key, chosen: str | None) -> str | None:
    return f"{key.prefix}{OWNER_SEPARATOR}{chosen}" if chosen is not None else None


async def _by_public_id(prediction_id: str, do: Callable[..., Awaitable[T]]) -> T:
    """Do it with the stored id, and the caller's prefix if the key is restricted; the result has the caller's id."""
    key = restricted_key()
    if key is None:
        return await do(prediction_id)
    done = await _by_either_id(key, prediction_id, partial(do, prefix=key.prefix))
    return structs.replace(done, prediction_id=_public_id(key, done.prediction_id))


async def _by_either_id(key: Key, prediction_id: str, do: Callable[[str], Awaitable[T]]) -> T:
    """Do it with the stored id: chosen by the caller, made by the service, or chosen with an unrestricted key."""
    is_made = made_at(prediction_id) is not None
    stored_id = prediction_id if is_made else f"{key.prefix}{OWNER_SEPARATOR}{prediction_id}"
    with _public_ids(key):
        try:
            return await do(stored_id)
        except (UnknownPrediction, PredictionUnderWay, PredictionExpired) as error:
            if is_made:
                raise
            try:
                return await do(prediction_id)
            except UnknownPrediction:
                raise error from None


def _public_id(key: Key, prediction_id: str | None) -> Any:
    return prediction_id and prediction_id.removeprefix(key.prefix + OWNER_SEPARATOR)


@contextmanager
def _public_ids(key: Key) -> Iterator[None]:
    """Remove the prefix from ids in the messages of errors."""
    try:
        yield
    except NovikoffError as error:
        for before in ("'", "/feedback/"):
            error.detail = error.detail.replace(f"{before}{key.prefix}{OWNER_SEPARATOR}", before)
        raise
