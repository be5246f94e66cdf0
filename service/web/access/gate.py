"""The gate before every route: who calls, whether they may, and how often.

With keys, a request needs one that is good enough for its route. Without any, programs of this machine are let in, or
everybody's; a web page that reaches for the service through somebody's browser is neither.
"""

import logging
import re
from collections.abc import Iterable, MutableMapping
from time import monotonic
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from service.errors import Forbidden, InvalidSettings, Unauthorized
from service.runtime import logs
from service.runtime.listening import is_for_this_machine
from service.settings import Settings
from service.web.access.declarations import ROUND, Access
from service.web.access.keys import Key, KeyRing, Role
from service.web.access.rate_limits import Bucket, RateLimits, RefusedKeys
from service.web.access.tenants import NO_LONGER_VALID, caller
from service.web.http.addresses import Proxies, caller_of
from service.web.http.connection_limits import PROBES
from service.web.http.requests import Header, Send

_LOOPBACK = rb"localhost|[a-z0-9-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\]"
_ADDRESS = rb"\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]"
_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)


class HostNames:
    """`localhost` and the other names of this machine, those that are given, and if `addresses`, every IP address.

    `*.example.org` stands for all names below `example.org`, `*` for any. A port makes no difference. Addresses are
    safe: a page can choose where its name leads to, but no page has a name that is an address.

    >>> names = HostNames(["novikoff", "*.example.org"], addresses=False)
    >>> [names.allow(host) for host in (b"localhost:8000", b"Novikoff", b"a.example.org:80")]
    [True, True, True]
    >>> [names.allow(host) for host in (b"10.0.0.1", b"evil.example", b"")]
    [False, False, False]
    """

    def __init__(self, names: Iterable[str], *, addresses: bool) -> None:
        patterns = [_LOOPBACK, *map(_pattern, names), *([_ADDRESS] if addresses else [])]
        self._allowed = re.compile(rb"(?:%b)(?::\d*)?" % b"|".join(patterns), re.IGNORECASE)
        self._allowed_last = b"localhost"

    def allow(self, host: bytes) -> bool:
        """Whether a `Host` is one of these."""
        if host != self._allowed_last:
            if self._allowed.fullmatch(host) is None:
                return False
            self._allowed_last = host
        return True


def is_host_name(name: str) -> bool:
    """Whether a name can be given here: without a port."""
    return _NAME.fullmatch(name) is not None


def _pattern(name: str) -> bytes:
    if name == "*":
        return b".*"
    below = name.removeprefix("*.")
    literal = re.escape(f"[{below}]" if ":" in below else below).encode()
    return literal if below == name else rb"(?:[a-z0-9_-]+\.)+" + literal


ADDRESSES_MAX = 256
"""How many addresses are remembered that a key came from."""

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})

log = logging.getLogger(__name__)


class Gate:
    """Lets requests in, or says why not. `hosts`: the names that they may be for; None for any."""

    def __init__(
        self,
        ring: KeyRing | None,
        rates: RateLimits | None,
        *,
        refused: RefusedKeys | None,
        proxies: Proxies,
        hosts: HostNames | None,
        origins: frozenset[str],
    ) -> None:
        self._ring = ring
        self._rates = rates
        self._refused = refused
        self._proxies = proxies
        self._hosts = hosts
        self._origins = origins
        self._refusals = logs.LogLimiter()

    def admit(self, scope: MutableMapping[str, Any], needed: Access, send: Send) -> Send:
        """A `send` for the answer; Unauthorized, Forbidden or HttpError for who may not come in."""
        headers: list[Header] = scope["headers"]
        if self._hosts is not None:
            _check_host(headers, self._hosts)
        # Rounds are sent as JSON or lines of it, which browsers send to other sites only with their leave.
        if self._ring is None and scope["method"] in UNSAFE and needed is not ROUND:
            self._check_site(headers)
        if needed.role is Role.OPEN:
            if self._rates is None or scope["path"] in PROBES:
                return send
            return _counted(send, self._rates.take(f"open {self._address(scope)}"))
        key = self._key(headers, scope) if self._ring is not None else None
        if self._rates is None:
            limited = send
        else:
            who = f"key {key.name}" if key is not None else self._address(scope)
            limited = _counted(send, self._rates.take(who))
        if key is not None:
            if key.role < needed.role:
                role = needed.role.name.lower()
                raise Forbidden(f"this needs an API key with the role {role!r}")
            if key.prefix and not needed.tenants:
                raise Forbidden("this needs an API key without a prefix")
            caller.set(key)
            if needed is not ROUND:  # streams end by themselves
                return _while_valid(limited, key)
        return limited

    def _key(self, headers: list[Header], scope: MutableMapping[str, Any]) -> Key:
        assert self._ring is not None
        sent = presented(headers)
        key = self._ring.find(*sent) if len(sent) == 1 else None
        if sent and self._refused is not None:
            self._count(self._refused, key, scope)
        if key is not None:
            return key
        if (held_back := self._refusals.turn()) is not None:
            fields = {"client": self._address(scope), "others": held_back}
            log.warning("refused: a request without a valid API key", extra=fields)
        if not sent:
            raise Unauthorized("API key required: send it as `Authorization: Bearer …` or as `X-API-Key: …`")
        raise Unauthorized("invalid API key" if len(sent) == 1 else "several API keys: send one")

    def _count(self, refused: RefusedKeys, key: Key | None, scope: MutableMapping[str, Any]) -> None:
        """Note whether an address has sent a key that counts; HttpError if it has to pause.

        A key that came from there before is accepted all the same, so that no caller can lock out others of the
        address.
        """
        address = self._proxies.caller(scope.get("client"), scope["headers"])
        if address is None or (key is not None and address in key.came_from):
            return
        refused.check(address)
        if key is None:
            refused.add(address, monotonic())
        else:
            key.came_from[address] = None
            if len(key.came_from) > ADDRESSES_MAX:
                del key.came_from[next(iter(key.came_from))]

    def _address(self, scope: MutableMapping[str, Any]) -> str:
        client = scope.get("client")
        return self._proxies.caller(client, scope["headers"]) or caller_of(client)

    def _check_site(self, headers: list[Header]) -> None:
        said = dict(headers)
        origin, site = said.get(b"origin"), said.get(b"sec-fetch-site")
        if origin is None or self._allows(origin):
            return
        own = site in (b"same-origin", b"none") if site else origin.partition(b"://")[2] == said.get(b"host")
        if not own:
            raise Forbidden("without API keys, requests from pages of other sites cannot change anything")

    def _allows(self, origin: bytes) -> bool:
        return not self._origins.isdisjoint({"*", origin.decode("latin-1")})


def _check_host(headers: list[Header], allowed: HostNames) -> None:
    for name, host in headers:
        if name == b"host" and not allowed.allow(host):
            shown = host.decode("latin-1")[:200]
            raise Forbidden(f"host {shown!r} is not allowed; add it to NOVIKOFF_ALLOWED_HOSTS")


def presented(headers: list[Header]) -> set[bytes]:
    """The keys that came with a request.

    >>> presented([(b"authorization", b"bearer abc"), (b"x-api-key", b"abc")])
    {b'abc'}
    """
    found = set()
    for name, value in headers:
        if name == b"x-api-key":
            found.add(value.strip())
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            found.add(value[7:].strip())
    return found


def _while_valid(send: Send, key: Key) -> Send:
    """A `send` that raises Unauthorized for the next part of an answer once the key is revoked."""

    async def send_while_valid(message: MutableMapping[str, Any]) -> None:
        if key.revoked and message.get("more_body"):
            raise Unauthorized(NO_LONGER_VALID)
        await send(message)

    return send_while_valid


def _counted(send: Send, bucket: Bucket) -> Send:
    """A `send` that says in the answer's head how much is left."""

    async def send_counted(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *bucket.headers(monotonic())]
        await send(message)

    return send_counted


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
                f"NOVIKOFF_{name}: without API keys the service is for this machine only, but {address}"
                " is reachable by others. Create keys with `novikoff key`, or allow everyone with --allow-anonymous"
            )
        if "*" in origins:
            raise InvalidSettings(
                "NOVIKOFF_CORS_ORIGINS: * without API keys lets every web page use the service;"
                " create keys with `novikoff key`, or add --allow-anonymous"
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
