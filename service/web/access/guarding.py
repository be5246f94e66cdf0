"""Makes the gate from the settings: keys, rate limits, allowed origins."""

import re

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from service.errors import InvalidSettings
from service.runtime.listening import is_for_this_machine
from service.settings import Settings
from service.web.access.gate import Gate
from service.web.access.host_names import HostNames, is_host_name
from service.web.access.keys import KeyRing
from service.web.access.rate_limits import RateLimits
from service.web.access.refused_keys import RefusedKeys
from service.web.http.addresses import Proxies

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
    origins = frozenset(_listed(settings.cors_origins))
    if not all(map(_ORIGIN.fullmatch, origins)):
        raise InvalidSettings("NOVIKOFF_CORS_ORIGINS: each must be like https://example.org, or * for all")
    return origins


def make_gate(settings: Settings, ring: KeyRing | None, origins: frozenset[str]) -> Gate:
    if ring is None and not settings.allow_anonymous:
        if not is_for_this_machine(settings.host, settings.published):
            name, address = (
                ("PUBLISHED", settings.published) if settings.published else ("HOST", settings.host)
            )
            raise InvalidSettings(
                f"NOVIKOFF_{name}: without keys the service is for this machine only, and {address}"
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
    return Gate(
        ring,
        rates,
        refused=RefusedKeys(settings.refused_keys_max) if settings.refused_keys_max else None,
        proxies=trusted_proxies(settings),
        hosts=_host_names(settings, ring),
        origins=origins,
    )


def _host_names(settings: Settings, ring: KeyRing | None) -> HostNames | None:
    """The names that requests may be for, None for any. A page cannot send a key, so with keys any will do."""
    names = _listed(settings.allowed_hosts)
    if not all(map(is_host_name, names)):
        raise InvalidSettings(
            "NOVIKOFF_ALLOWED_HOSTS: each must be a name without a port, like example.org, *.example.org, or * for all"
        )
    if ring is not None and not names:
        return None
    for_others = ring is not None or settings.allow_anonymous or bool(settings.published)
    return HostNames([settings.host, *names], addresses=for_others)


def trusted_proxies(settings: Settings) -> Proxies:
    """Who may say on whose behalf they call; InvalidSettings for what is no address and no network."""
    try:
        return Proxies(_listed(settings.trusted_proxies))
    except ValueError as error:
        raise InvalidSettings(f"NOVIKOFF_TRUSTED_PROXIES: {error}") from None


def _listed(setting: str) -> list[str]:
    return [each for each in re.split(r"[,\s]+", setting) if each]


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
