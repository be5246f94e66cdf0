"""Queries: what a route does not know is an error, not ignored."""

from fastapi import Depends, Request

from service.errors import InvalidRequest


async def _check(request: Request) -> None:
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise InvalidRequest.at(unknown[0][:200], "is not known here")


KNOWN_ONLY = [Depends(_check)]
"""The dependencies of a router whose routes take the parameters that they declare, and no others."""
