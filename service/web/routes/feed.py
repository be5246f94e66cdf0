"""GET /feed: statistics as Server-Sent Events, for dashboards.

Nothing is queued for a client: each frame is made of the state at the moment it is sent. A slow client
therefore misses frames, but never sees them out of order, and costs no memory.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Response

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN
from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.errors import (
    InvalidRequest,
    ModelUnreadable,
    Overloaded,
    Unauthorized,
    Unavailable,
    UnknownModel,
)
from service.journal.protocol import Totals
from service.runtime.byte_budget import Shares
from service.runtime.cooperative import Turns
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import check_known, prefix
from service.web.http.responses import BreakingOff
from service.web.routes.openapi import problems
from service.web.routes.stats import ReportCache, brief, report, sums

FRAME_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 15.0
MODELS_MAX = 1_000
"""The most models in one frame, the latest changed first."""

SHOWN_MAX = 200
"""The most models that a client can ask for by their names."""

ALL: frozenset[str] = frozenset()

_encode = msgspec.json.Encoder().encode

OnlyModel = Annotated[str | None, Query(alias="model", pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX)]
Shown = Annotated[
    str | None,
    Query(
        alias="models",
        max_length=20_000,
        description=f"only these models beside the totals, comma-separated; at most {SHOWN_MAX}",
    ),
]
LastEventId = Annotated[str | None, Header(max_length=100, description="the id of the last frame received")]


class Feed:
    """Frames of what has changed. An id is this process's own, so that a restart begins with a snapshot."""

    def __init__(self, models: Models, fleet: Fleet, clock: Clock, *, clients_max: int) -> None:
        self._models = models
        self._fleet = fleet
        self._clock = clock
        self._clients_max = clients_max
        self._process = os.urandom(6).hex()
        self._stopping = asyncio.Event()
        self._places = Shares(fleet.tenants)
        self._lines = ReportCache(lambda live, _, __: line(live))

    @property
    def clients(self) -> int:
        return self._places.count

    def stop(self) -> None:
        """End every stream, so that nothing holds up the shutdown."""
        self._stopping.set()

    async def check(self, only: str | None) -> None:
        """Overloaded if there are too many clients, UnknownModel if there is no such model."""
        if not self._places.may_take(self._fleet.tenants.of(prefix()), 1, self._clients_max):
            raise Overloaded(f"{self.clients} clients already follow the feed (`feeds_max`)")
        if only is not None:
            check_known(only)
            await self._models.get(only)

    async def frames(
        self, only: str | None, shown: frozenset[str] | None, last_event_id: str | None
    ) -> AsyncIterator[bytes]:
        """At most a frame a second, while there is something new; a comment now and then otherwise.

        Of `only` one model, or of all, or of those that are `shown`.
        """
        try:
            tenant = self._fleet.tenants.of(prefix())
        except Unauthorized:
            return  # the key was revoked
        if not self._places.may_take(tenant, 1, self._clients_max):  # others came between the check and now
            return
        self._places.add(tenant, 0)
        try:
            yield b"retry: 2000\n\n"
            seen = self._seen(last_event_id)
            silent_seconds = 0.0
            while not self._stopping.is_set():
                seen, content = await self._next(only, shown, seen)
                if content:
                    silent_seconds = 0.0
                    yield content
                elif silent_seconds >= KEEP_ALIVE_SECONDS:
                    silent_seconds = 0.0
                    yield b": still here\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), FRAME_SECONDS)
                silent_seconds += FRAME_SECONDS
        except Unauthorized:
            return  # the key was revoked
        except ModelUnreadable:
            return  # the client connects again, and gets the reason as an error
        finally:
            self._places.remove(tenant, 0)

    def _seen(self, last_event_id: str | None) -> int | None:
        process, _, tick = (last_event_id or "").partition("-")
        return int(tick) if process == self._process and tick.isdecimal() and len(tick) < 16 else None

    async def _next(
        self, only: str | None, shown: frozenset[str] | None, seen: int | None
    ) -> tuple[int | None, bytes]:
        """A frame; none while the journal cannot be used, and then later one with all that has changed."""
        try:
            return await self._frame(only, shown, seen)
        except ModelUnreadable:
            raise
        except Unavailable:
            return seen, b""

    async def _frame(
        self, only: str | None, shown: frozenset[str] | None, seen: int | None
    ) -> tuple[int, bytes]:
        """The tick that the frame covers, and the frame; empty if nothing has changed."""
        own = prefix()
        tick = self._fleet.tick
        if seen is not None and tick <= seen:
            return seen, b""
        kind = "snapshot" if seen is None else "changes"
        if only:
            data = await self._of_one(only, seen)
        elif seen is None:
            data = await self._of_all(own, shown, seen, await self._models.totals.now(own))
        elif own and not self._has_changed(own, seen):
            data = None
        else:
            found = await self._models.totals.paced(own)
            tick = found.tick  # the next frame has what changed since, with totals that fit
            data = await self._of_all(own, shown, seen, found.totals)
        if data is None:
            return tick, b""
        return tick, b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self._process.encode(), tick, kind.encode(), _encode(data),
        )  # fmt: skip

    async def _of_one(self, name: str, seen: int | None) -> dict[str, Any] | None:
        try:
            live = await self._models.get(name)
        except UnknownModel:
            return {"model": name, "deleted": True}
        if seen is not None and live.tick <= seen:
            return None
        return {**report(live, self._clock.now()), "probability": live.probability}

    def _has_changed(self, own: str, seen: int) -> bool:
        """Whether a model of the caller has changed or was deleted."""
        return any(live.model.name.startswith(own) for live in self._fleet.changed_since(seen)) or any(
            tick > seen and name.startswith(own) for name, tick in self._fleet.deleted.items()
        )

    async def _of_all(
        self, own: str, shown: frozenset[str] | None, seen: int | None, totals: Totals
    ) -> dict[str, Any]:
        """What has changed. Many clients want it at the same moment, a thousand lines each: so lines are shared and are
        made in slices. They may tell of what came after the frame's tick; the next frame has that again."""

        def is_told(name: str) -> bool:
            return name.startswith(own) and (shown is None or name in shown)

        changed = (live for live in self._fleet.changed_since(seen or 0) if is_told(live.model.name))
        models, turns = [], Turns()
        for live in list(islice(changed, MODELS_MAX)):
            models.append(self._lines.get(live, live.model.updated_at, ALL))
            await turns.give()
        deleted = [
            name
            for name, tick in self._fleet.deleted.items()
            if seen is not None and tick > seen and is_told(name)
        ]
        return {"totals": sums(totals), "models": models, "deleted": deleted}


def line(live: Live) -> dict[str, Any]:
    """A model in the fleet's frames: its counts, its recent error, whether it drifts, and how sure it was last."""
    statistics = live.model.statistics
    return {
        **brief(live),
        "ewma_error_rate": statistics.ewma_error_rate,
        "drift": statistics.drift_state,
        "probability": live.probability,
    }


def router(feed: Feed) -> APIRouter:
    routes = APIRouter(tags=["statistics"], responses=problems(404, 422, 503))

    @routes.get("/feed", response_class=BreakingOff,
                responses={200: {"content": {"text/event-stream": {}}}})  # fmt: skip
    @access(Role.READ, tenants=True)
    async def follow(
        model: OnlyModel = None, models: Shown = None, last_event_id: LastEventId = None
    ) -> Response:
        """Statistics as they change, as Server-Sent Events.

        First a `snapshot`, then `changes` at most once a second; of one model, of some or of the whole fleet. With
        `Last-Event-ID`, changes since that frame. The `probability` of a model is the one that its newest prediction or
        round was served with.
        """
        shown = None if models is None else frozenset(filter(None, models.split(",")))
        if shown is not None and len(shown) > SHOWN_MAX:
            raise InvalidRequest.at("models", f"at most {SHOWN_MAX} are allowed")
        await feed.check(model)
        return BreakingOff(
            feed.frames(model, shown, last_event_id),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    return routes
