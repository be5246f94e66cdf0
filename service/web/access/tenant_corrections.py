"""Corrections for a caller whose key is restricted to a prefix: rounds of other models are absent; see `tenants.py`."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import structs

from service.engine.rounds.corrections import Corrected, Corrections
from service.engine.rounds.forgetting import Forgetting, Forgotten
from service.errors import PredictionExpired, PredictionUnderWay, UnknownPrediction
from service.events import Label
from service.web.access.callers import check_known, restricted_key
from service.web.access.tenants import id_of_caller, public_id, with_public_ids


class TenantCorrections:
    """Corrections of the caller's rounds."""

    def __init__(self, corrections: Corrections, forgetting: Forgetting) -> None:
        self._corrections = corrections
        self._forgetting = forgetting

    async def forget(self, name: str, tag: str) -> Forgotten:
        check_known(name)
        return await self._forgetting.forget(name, tag)

    async def correct(self, prediction_id: str, label: Label, reason: str | None) -> Corrected:
        return await self._for_caller(
            prediction_id, partial(self._corrections.correct, label=label, reason=reason)
        )

    async def void(self, prediction_id: str) -> Corrected:
        return await self._for_caller(prediction_id, self._corrections.void)

    async def _for_caller(
        self, prediction_id: str, do: Callable[..., Coroutine[Any, Any, Corrected]]
    ) -> Corrected:
        key = restricted_key()
        if key is None:
            return await do(prediction_id)
        chosen = id_of_caller(key, prediction_id)
        with with_public_ids(key):
            try:
                done = await do(chosen, prefix=key.prefix)
            except (UnknownPrediction, PredictionUnderWay, PredictionExpired) as error:
                if chosen == prediction_id:
                    raise
                try:
                    done = await do(prediction_id, prefix=key.prefix)
                except UnknownPrediction:
                    raise error from None
        return structs.replace(done, prediction_id=public_id(done.prediction_id))
