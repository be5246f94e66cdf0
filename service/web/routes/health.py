"""/livez and /readyz: the probes of orchestrators and load balancers."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response

from service.errors import Unavailable
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.http.answers import Json
from service.web.routes.openapi import problems


class NotReady(Unavailable):
    code = "not-ready"


def router(why_unready: Callable[[], Awaitable[str | None]], models_damaged: Callable[[], int]) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/livez")
    @access(Role.OPEN)
    async def live() -> Response:
        """The process runs and answers."""
        return Json({"status": "live"})

    @routes.get("/readyz", responses=problems(503))
    @access(Role.OPEN)
    async def ready() -> Response:
        """The journal is open and within reach, this replica is not far behind the others, and all its parts run.

        `models_damaged` tells how many models are set aside, if any are; the others are served.
        """
        why = await why_unready()
        if why is not None:
            raise NotReady(why)
        damaged = models_damaged()
        return Json({"status": "ready", **({"models_damaged": damaged} if damaged else {})})

    return routes
