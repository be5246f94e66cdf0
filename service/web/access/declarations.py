"""What a route declares above its function: who may call it, and what they may send.

The gate, the reader of bodies and the OpenAPI document look it up here. docs/security.md lists the roles.
"""

import re
from collections.abc import Callable, MutableMapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, compile_path

from service.web.access.keys import Role

Function = TypeVar("Function", bound=Callable[..., Any])


class Body(Enum):
    """What a route takes as the body of a request."""

    NONE = "nothing: a body that comes all the same is passed over"
    JSON = "JSON of at most `body_bytes_max`"
    UPLOAD = "JSON, or lines of it, of at most `upload_bytes_max`"
    UNREAD = "the endpoint reads and checks it itself"


class Access(NamedTuple):
    """What a route declares.

    `role` is what a key needs to have. `tenants` says that keys for some models only may call it, too. `makes_model`:
    the model in the path need not exist, so that one of others is forbidden, and not absent; see `tenants.py`.
    """

    role: Role
    tenants: bool = False
    body: Body = Body.NONE
    makes_model: bool = False


ROUND = Access(Role.WRITE, tenants=True, body=Body.UNREAD)
"""The same for /predict, /feedback, /learn and /stream, also with a model in the path."""


def access(
    role: Role, *, tenants: bool = False, body: Body = Body.NONE, makes_model: bool = False
) -> Callable[[Function], Function]:
    """Declare it for the route whose function this stands above, below the route itself."""

    def declare(endpoint: Function) -> Function:
        endpoint.__dict__["access"] = Access(role, tenants, body, makes_model)
        return endpoint

    return declare


class RouteTable:
    """What all routes of an app declare; LookupError if one declares nothing."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self.declared: dict[str, Access] = {}
        self._patterns: list[tuple[str, re.Pattern[str], tuple[Access, str]]] = []
        for route in iter_route_contexts(routes):
            path, declared = str(route.path), getattr(route.endpoint, "access", None)
            if declared is None:
                raise LookupError(f"{path} does not declare its @access")
            for method in (route.methods or set()) - {"HEAD"}:
                self.declared[f"{method} {path}"] = declared
                if "{" in path:
                    self._patterns.append((method, compile_path(path)[0], (declared, path)))

    def find(self, scope: MutableMapping[str, Any]) -> tuple[Access, str]:
        """What the route of a request declares, and its path as documents write it.

        What has no route takes `read` to look at and `admin` for the rest.

        >>> RouteTable([]).find({"method": "PATCH", "path": "/models/spam"})[1]
        'unknown'
        """
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = self.declared.get(f"{method} {path}")
        if found is not None:
            return found, path
        for of, pattern, declared in self._patterns:
            if of == method and pattern.match(path):
                return declared
        return Access(Role.READ if method in ("GET", "OPTIONS") else Role.ADMIN, tenants=True), "unknown"
