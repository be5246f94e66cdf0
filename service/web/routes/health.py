"""/livez and /readyz, the probes of orchestrators and load balancers, and /whoami."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response

from novikoff.schemas import Caller
from service.errors import Unavailable
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import caller, prefix
from service.web.http.responses import Json
from service.web.routes.openapi import answers, problems


class NotReady(Unavailable):
    code = "not-ready"


def router(why_unready: Callable[[], Awaitable[str | None]], models_damaged: Callable[[], int]) -> APIRouter:
    routes = APIRouter()

    @routes.get("/livez", tags=["health"])
    @access(Role.OPEN)
    async def live() -> Response:
        """The process runs and answers."""
        return Json({"status": "live"})

    @routes.get("/readyz", tags=["health"], responses=problems(503))
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

    @routes.get("/whoami", tags=["service"], responses=answers(Caller) | problems(422, 503))
    @access(Role.READ, tenants=True)
    async def whoami() -> Response:
        """The role of the caller's key, and what the names of its models begin with; without keys, all is allowed."""
        key = caller.get()
        role = Role.ADMIN if key is None else key.role
        return Json({"role": role.name.lower(), "prefix": prefix()})

    return routes
