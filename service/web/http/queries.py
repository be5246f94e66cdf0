"""Queries: what a route does not know, or gets more than once, is an error, not ignored."""

from collections.abc import Container
from typing import TypeVar
from urllib.parse import parse_qsl

from fastapi import Request

from service.errors import InvalidRequest

T = TypeVar("T")


def parameters(query: bytes, known: Container[str]) -> dict[str, str]:
    """The parameters of a query; InvalidRequest for one that is not known or comes more than once.

    >>> parameters(b"model=spam&label=", {"model", "label"})
    {'model': 'spam', 'label': ''}
    >>> parameters(b"limit", ())
    Traceback (most recent call last):
    service.errors.InvalidRequest: limit: is not known here
    """
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise InvalidRequest.at(name[:200], "is not known here")
        if name in found:
            raise InvalidRequest.at(name[:200], "is given more than once")
        found[name] = value
    return found


def checks_query(endpoint: T) -> T:
    """For the handler of a route whose query is checked beside its body."""
    endpoint.checks_query = True  # type: ignore[attr-defined]
    return endpoint


async def check_query(request: Request) -> None:
    """A dependency of every route: its query has the parameters that it declares, once, and no others."""
    route = request.scope["route"]
    if not hasattr(route.endpoint, "checks_query"):
        known = {parameter.alias for parameter in route.dependant.query_params}
        parameters(request.scope["query_string"], known)
