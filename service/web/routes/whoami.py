"""GET /whoami: what the caller may do, so that a page offers nothing else."""

from fastapi import APIRouter, Response

from novikoff.schemas import Caller
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import caller, prefix
from service.web.http.answers import Json
from service.web.routes.openapi import answers, problems


def router() -> APIRouter:
    routes = APIRouter(tags=["service"], responses=problems(422, 503))

    @routes.get("/whoami", responses=answers(Caller))
    @access(Role.READ, tenants=True)
    async def whoami() -> Response:
        """The role of the caller's key, and what the names of its models begin with; without keys, all is allowed."""
        key = caller.get()
        role = Role.ADMIN if key is None else key.role
        return Json({"role": role.name.lower(), "prefix": prefix()})

    return routes
