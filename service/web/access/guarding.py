"""Makes the gate from the settings: keys, rate limits, allowed origins."""

import re

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from service.errors import InvalidSettings
from service.listening import is_loopback
from service.settings import Settings
from service.web.access.gate import Gate
from service.web.access.keys import KeyRing
from service.web.access.rate_limits import RateLimits

_ORIGIN = re.compile(r"https?://[^\s/@,]+|\*")

CORS_REQUEST_HEADERS = (
    "authorization",
    "content-encoding",
    "content-type",
    "if-none-match",
    "last-event-id",
    "x-api-key",
    "x-request-id",
)
CORS_EXPOSED_HEADERS = (
    "etag", "idempotent-replay", "location", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id",
)  # fmt: skip


def key_ring(settings: Settings) -> KeyRing | None:
    """The keys of the settings, None if there are none; InvalidSettings if they are malformed."""
    if not settings.api_keys and not settings.api_keys_file:
        return None
    return KeyRing(settings.api_keys, settings.api_keys_file)


def allowed_origins(settings: Settings) -> frozenset[str]:
    """The web sites whose pages may call the service (CORS)."""
    origins = frozenset(filter(None, re.split(r"[,\s]+", settings.cors_origins)))
    if not all(map(_ORIGIN.fullmatch, origins)):
        raise InvalidSettings("NOVIKOFF_CORS_ORIGINS: each must be like https://example.org, or * for all")
    return origins


def make_gate(settings: Settings, ring: KeyRing | None, origins: frozenset[str]) -> Gate:
    if ring is None and not settings.allow_anonymous:
        if not is_loopback(settings.host):
            raise InvalidSettings(
                f"NOVIKOFF_HOST: without keys the service listens on this machine only, and {settings.host}"
                " is for others too. Make keys with `novikoff key`, or let everybody in with --allow-anonymous"
            )
        if "*" in origins:
            raise InvalidSettings(
                "NOVIKOFF_CORS_ORIGINS: * without keys would let every web page use the service;"
                " make keys with `novikoff key`, or say --allow-anonymous"
            )
    rates = None
    if settings.requests_per_second:
        rates = RateLimits(settings.requests_per_second, settings.requests_burst)
    local_only = ring is None and not settings.allow_anonymous
    return Gate(ring, rates, local_only=local_only, host=settings.host, origins=origins)


def across_origins(app: ASGIApp, origins: frozenset[str]) -> ASGIApp:
    """Add CORS headers for these sites. Pages send the key themselves, so cookies are not allowed."""
    methods = ("GET", "POST", "PUT", "DELETE")
    return CORSMiddleware(
        app,
        allow_origins=sorted(origins),
        allow_methods=methods,
        allow_headers=CORS_REQUEST_HEADERS,
        expose_headers=CORS_EXPOSED_HEADERS,
    )
