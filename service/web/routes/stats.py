"""/stats: what has come of the rounds, and /attention: the models that need a look.

docs/statistics.md defines every number.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Response

from novikoff.schemas import AttentionPage, Stats, StatsPage
from service.engine.clock import Clock
from service.engine.fleet.attention import Attention
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.replay.past import Past
from service.errors import InvalidRequest, ModelUnreadable, UnknownModel
from service.journal.protocol import Listed, Page, Summary, Totals
from service.runtime.cooperative import Turns
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import narrowed, prefix
from service.web.http.compression import packed
from service.web.http.responses import Json, etag_of, timestamp, unless_known
from service.web.routes.models import At, Limit, ModelName, Prefix
from service.web.routes.openapi import answers, problems

ENTRIES_MAX = 2_000

_encode = msgspec.json.Encoder().encode

Key = tuple[str, frozenset[str]]


def clock_step(now: int, updated_at: int) -> int:
    """A number that changes whenever the windows by time of an unchanged model may change.

    The windows have buckets of 1 s, 1 min and 30 min, and the finer ones are empty a while after the last
    reveal.

    >>> now = 10_000_000_000_000
    >>> [clock_step(now + 999_999, now - idle) == clock_step(now, now - idle) for idle in (0, 90_000_000)]
    [True, True]
    >>> [clock_step(now + 1_000_000, now - idle) == clock_step(now, now - idle) for idle in (0, 90_000_000)]
    [False, True]
    """
    idle_seconds = (now - updated_at) / 1e6
    if idle_seconds < 61:
        return now // 1_000_000
    if idle_seconds < 3_660:
        return now // 60_000_000
    return now // 1_800_000_000 if idle_seconds < 90_000 else 0


class ReportCache:
    """Encoded reports of the models asked for last, at most ENTRIES_MAX."""

    def __init__(self, report: Callable[[Live, int, frozenset[str]], dict[str, Any]]) -> None:
        self._report = report
        self._kept: OrderedDict[Key, tuple[int, int, msgspec.Raw]] = OrderedDict()

    def get(self, live: Live, now: int, fields: frozenset[str]) -> msgspec.Raw:
        key = (live.model.name, fields)
        step = clock_step(now, live.model.updated_at)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == live.tick and kept[1] == step:
            return kept[2]
        made = msgspec.Raw(_encode(self._report(live, now, fields)))
        self._kept[key] = (live.tick, step, made)
        self._kept.move_to_end(key)
        if len(self._kept) > ENTRIES_MAX:
            self._kept.popitem(last=False)
        return made


Sort = Literal["name", "rounds", "error_rate", "ewma_error_rate", "mistakes", "pending", "updated_at"]
Contains = Annotated[str, Query(max_length=128, description="only models with this text in their names")]
Reverse = Annotated[
    bool, Query(description="from the end of the list, or back from a page with its `previous`")
]
Fields = Annotated[str | None, Query(max_length=1000, description="only these fields, comma-separated")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before")]
AcceptEncoding = Annotated[str | None, Header(description="with `gzip`, the response is compressed")]
IfNoneMatch = Annotated[str | None, Header(description="the ETag of an earlier response")]

FIELDS = frozenset(Stats.__struct_fields__)
ASKED_FOR = frozenset({"learner_curves"})
"""Told only to who asks for them, of one model at a time: of nine learners they take some 60 KB."""

TOLD = FIELDS - ASKED_FOR
"""The fields of a response if the request names none."""

AS_KNOWN: dict[int | str, dict[str, Any]] = {304: {"description": "As you have it"}}

NO_TOTALS = Totals(0, 0, 0, 0, 0, 0)


def counts(of: Summary | Totals) -> dict[str, Any]:
    """Rounds, mistakes and updates, of a model or of all."""
    return {
        "rounds": {
            "predicted": of.revealed + of.pending + of.expired,
            "revealed": of.revealed,
            "pending": of.pending,
            "expired": of.expired,
        },
        "mistakes": of.mistakes,
        "updates": of.updates,
        "error_rate": of.mistakes / of.revealed if of.revealed else None,
    }


def sums(totals: Totals) -> dict[str, Any]:
    return {"models": totals.models, **counts(totals)}


def brief(live: Live) -> dict[str, Any]:
    """The counts of a model: all that costs next to nothing."""
    model = live.model
    return {
        "model": model.name,
        "algorithm": model.settings["learner"]["algorithm"],
        "version": model.version,
        **counts(live.summary()),
        "created_at": timestamp(model.created_at),
        "updated_at": timestamp(model.updated_at),
    }


def report(live: Live, now: int, fields: frozenset[str] = TOLD) -> dict[str, Any]:
    """All of a model's statistics, or those asked for, in the order of their declaration."""
    known = brief(live)
    if not fields - ASKED_FOR <= known.keys():
        known |= live.report(now)
    if "learner_curves" in fields:
        known["learner_curves"] = live.model.learner_curves()
    return {field: known[field] for field in Stats.__struct_fields__ if field in fields}


def _unless_known(body: bytes, if_none_match: str | None) -> Response:
    headers = {"cache-control": "private, no-cache", "content-type": "application/json"}
    return unless_known(body, etag_of(body), if_none_match, headers)


def _wanted(fields: str | None) -> frozenset[str]:
    if fields is None:
        return TOLD
    wanted = frozenset(field.strip() for field in fields.split(",")) | {"model"}
    unknown = sorted(wanted - FIELDS)
    if unknown:
        raise InvalidRequest.at("fields", f"there are {', '.join(sorted(FIELDS))}")
    return wanted


def cursor_at(place: object) -> str:
    return base64.urlsafe_b64encode(_encode(place)).decode()


def place_at(cursor: str | None, kind: Any) -> Any:
    if cursor is None:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=kind)
    except (binascii.Error, UnicodeError, ValueError, msgspec.MsgspecError):
        raise InvalidRequest.at("cursor", "is not a cursor from this service") from None


def router(models: Models, past: Past, attention: Attention, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["statistics"], responses=problems(422, 503))
    reports_kept = ReportCache(report)

    @routes.get("/stats", responses=answers(StatsPage) | AS_KNOWN)
    @access(Role.READ, tenants=True)
    async def page(
        prefix: Prefix = "",
        cursor: Cursor = None,
        limit: Limit = 100,
        sort: Sort = "name",
        reverse: Reverse = False,
        contains: Contains = "",
        fields: Fields = None,
        if_none_match: IfNoneMatch = None,
        accept_encoding: AcceptEncoding = None,
    ) -> Response:
        """The statistics of all models, page by page, and totals over all of them.

        Sorted by name, or by a number with the largest first; with `reverse`, the other way round. Models whose
        history is damaged are listed as `unreadable`, with the reason.
        """
        wanted = _wanted(fields)
        if wanted & ASKED_FOR:
            raise InvalidRequest.at("fields", f"{', '.join(wanted & ASKED_FOR)}: only for a single model")
        own = narrowed(prefix)
        listed: list[Listed] = []
        if own is not None:
            asked = Page(
                own, sort, place_at(cursor, tuple[float | str, str]), limit + 1, contains.lower(), reverse
            )
            listed = await models.page(asked)
        reports, unreadable, turns = [], [], Turns()
        for line in listed[:limit]:
            await turns.give()
            try:
                live = await models.get(line.model)
            except UnknownModel:
                continue  # it was deleted since
            except ModelUnreadable as error:
                unreadable.append({"model": line.model, "detail": error.detail})
            else:
                reports.append(reports_kept.get(live, clock.now(), wanted))
        answer = {
            "totals": sums(NO_TOTALS if own is None else await models.totals.now(own)),
            "models": reports,
            "unreadable": unreadable,
            "next": cursor_at((listed[limit - 1].key, listed[limit - 1].model))
            if len(listed) > limit
            else None,
            "previous": cursor_at((listed[0].key, listed[0].model))
            if cursor is not None and listed
            else None,
        }
        return packed(_unless_known(_encode(answer), if_none_match), accept_encoding)

    @routes.get("/stats/{model}", responses=answers(Stats) | AS_KNOWN | problems(404, 410))
    @access(Role.READ, tenants=True)
    async def one(
        model: ModelName, fields: Fields = None, at: At = None, if_none_match: IfNoneMatch = None
    ) -> Response:
        """The statistics of one model, now or `at` a version.

        At a version they are as of its last event then, and know of no waiting predictions.
        """
        wanted = _wanted(fields)
        if at is not None:
            then = Live(await past.at(model, at), 0, 0)
            return _unless_known(_encode(report(then, then.model.updated_at, wanted)), if_none_match)
        live, now = await models.get(model), clock.now()
        if wanted & ASKED_FOR:  # too large to be kept for the next who asks
            return _unless_known(_encode(report(live, now, wanted)), if_none_match)
        return _unless_known(bytes(reports_kept.get(live, now, wanted)), if_none_match)

    @routes.get("/attention", responses=answers(AttentionPage))
    @access(Role.READ, tenants=True)
    async def look(limit: Limit = 100) -> Response:
        """The models that need a look, and why: of those in memory, and of those that cannot be read.

        Kinds of reasons: `drift`, `error_risen`, `labels_stopped`, `evicted`, `bound_exceeded`, `rebuilding`,
        `damaged`.
        """
        found = await attention.find(prefix(), clock.now())
        return Json({"count": len(found), "models": found[:limit]})

    return routes
