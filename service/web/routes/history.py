"""GET /models/{model}/history: the rounds of a model as data, a line or a row for each."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response

from service.engine.replay.record import PastRound, Record, Wanted
from service.errors import InvalidRequest
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import OWNER_SEPARATOR, prefix
from service.web.http.answers import timestamp
from service.web.http.bodies import NDJSON
from service.web.http.breaking_off import BreakingOff
from service.web.routes.history_columns import MEDIA_TYPES, columnar
from service.web.routes.models import ModelName
from service.web.routes.openapi import problems

Version = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Time = Annotated[str | None, Query(max_length=64, description="as in answers: 2026-01-31T12:00:00Z")]
Form = Annotated[Literal["ndjson", "arrow", "parquet"], Query(alias="format")]

FIRST_US, LAST_US = 0, 253_402_300_799_000_000
"""From 1970 to the year 9999."""

CONTENT = {
    NDJSON.decode(): {"schema": {"type": "string", "description": "a JSON object a line"}},
    **{media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()},
}

_encode = msgspec.json.Encoder().encode


def router(record: Record) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(404, 410, 422, 503))

    @routes.get("/models/{model}/history", response_class=Response, responses={200: {"content": CONTENT}})
    @access(Role.READ, tenants=True)
    async def rounds(
        request: Request,
        model: ModelName,
        form: Form = "ndjson",
        from_version: Version = None,
        to_version: Version = None,
        since: Time = None,
        until: Time = None,
    ) -> Response:
        """The rounds that the journal keeps, oldest first: features, what was served, what was true.

        `from_version` and `to_version` are the versions after a round, both included; of times, `until` is not. Arrow
        and Parquet need the extra `arrow`.
        """
        wanted = Wanted(from_version, to_version, _time("since", since), _time("until", until))
        media_type = NDJSON.decode() if form == "ndjson" else MEDIA_TYPES[form]
        of, portions = await record.rounds(model, wanted)
        parts = (
            _lines(portions, prefix()) if form == "ndjson" else columnar(form, of, _owned(portions, prefix()))
        )
        if request.method == "HEAD":
            return Response(media_type=media_type)
        return await BreakingOff.of(parts, media_type)

    return routes


def _time(field: str, text: str | None) -> int | None:
    """Microseconds since 1970; InvalidRequest unless it is a time with its zone."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        us = round(at.timestamp() * 1e6) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        us = None
    if us is None or not FIRST_US <= us <= LAST_US:
        raise InvalidRequest.at(field, "must be a time with its zone, such as 2026-01-31T12:00:00Z")
    return us


async def _owned(portions: AsyncIterator[list[PastRound]], own: str) -> AsyncIterator[list[PastRound]]:
    """The rounds with ids as the caller knows them."""
    async for some in portions:
        yield [
            msgspec.structs.replace(
                each, prediction_id=each.prediction_id.removeprefix(own + OWNER_SEPARATOR)
            )
            if each.prediction_id is not None
            else each
            for each in some
        ]


async def _lines(portions: AsyncIterator[list[PastRound]], own: str) -> AsyncIterator[bytes]:
    async for some in _owned(portions, own):
        yield b"".join([_encode(_line(each)) + b"\n" for each in some])


def _line(each: PastRound) -> dict[str, Any]:
    line = msgspec.structs.asdict(each)
    line["at"], line["predicted_at"] = timestamp(each.at), timestamp(each.predicted_at)
    if not isinstance(each.features, dict):
        line["features"] = each.features.tolist()
    return line
