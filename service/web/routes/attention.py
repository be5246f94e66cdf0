"""GET /attention: the models that need a look."""

from fastapi import APIRouter, Response

from novikoff.schemas import AttentionPage
from service.engine.clock import Clock
from service.engine.fleet.attention import Attention
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import prefix
from service.web.http.answers import Json
from service.web.routes.models import Limit
from service.web.routes.openapi import answers, problems


def router(attention: Attention, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["statistics"], responses=problems(422, 503))

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
