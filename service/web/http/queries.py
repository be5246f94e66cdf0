"""Queries: what a route does not know, or gets more than once, is an error, not ignored."""

from fastapi import Depends, Request

from service.errors import InvalidRequest


async def _check(request: Request) -> None:
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise InvalidRequest.at(name[:200], "is not known here")
        if name in seen:
            raise InvalidRequest.at(name[:200], "is given more than once")
        seen.add(name)


KNOWN_ONLY = [Depends(_check)]
"""The dependencies of a router whose routes take the parameters that they declare, once, and no others."""
