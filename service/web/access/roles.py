"""Which role a route needs. docs/security.md has the same table.

What is not in it, a route that somebody forgot to add say, takes `read` to look at and `admin` for the rest.
"""

import re
from collections.abc import MutableMapping
from typing import Any, NamedTuple

from starlette.routing import compile_path

from service.web.access.keys import Role

ROUTES = {
    "GET /": Role.OPEN,
    "GET /favicon.ico": Role.OPEN,
    "GET /dashboard/{name}": Role.OPEN,
    "GET /docs": Role.OPEN,
    "GET /openapi.json": Role.OPEN,
    "GET /livez": Role.OPEN,
    "GET /readyz": Role.OPEN,
    "GET /stats": Role.READ,
    "GET /stats/{model}": Role.READ,
    "GET /feed": Role.READ,
    "GET /metrics": Role.READ,
    "GET /models": Role.READ,
    "GET /models/{model}": Role.READ,
    "GET /models/{model}/weights": Role.READ,
    "GET /models/{model}/events": Role.READ,
    "GET /models/{model}/export": Role.READ,
    "GET /jobs/{job_id}": Role.READ,
    "POST /predict": Role.WRITE,
    "POST /feedback": Role.WRITE,
    "POST /learn": Role.WRITE,
    "POST /stream": Role.WRITE,
    "POST /models": Role.ADMIN,
    "PUT /models/{model}": Role.ADMIN,
    "DELETE /models/{model}": Role.ADMIN,
    "POST /models/{model}/reset": Role.ADMIN,
    "POST /models/{model}/fit": Role.ADMIN,
    "DELETE /jobs/{job_id}": Role.ADMIN,
}


class Needed(NamedTuple):
    """The role that a request needs, and its route as documents write it."""

    role: Role
    route: str


class Roles:
    """Looks up requests by the same patterns as the router does."""

    def __init__(self, routes: dict[str, Role] = ROUTES) -> None:
        self._exact: dict[str, Needed] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Needed]] = []
        for route, role in routes.items():
            method, _, path = route.partition(" ")
            if "{" in path:
                self._patterns.append((method, compile_path(path)[0], Needed(role, path)))
            else:
                self._exact[route] = Needed(role, path)

    def needed(self, scope: MutableMapping[str, Any]) -> Needed:
        """What a request needs.

        >>> Roles().needed({"method": "GET", "path": "/models/spam/weights"})
        Needed(role=<Role.READ: 1>, route='/models/{model}/weights')
        >>> Roles().needed({"method": "PATCH", "path": "/models/spam"})
        Needed(role=<Role.ADMIN: 3>, route='unknown')
        """
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = self._exact.get(f"{method} {path}")
        if found is not None:
            return found
        for of, pattern, needed in self._patterns:
            if of == method and pattern.match(path):
                return needed
        return Needed(Role.READ if method in ("GET", "OPTIONS") else Role.ADMIN, "unknown")
