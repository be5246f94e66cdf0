"""The gate before every route: who calls, whether they may, and how often.

With keys, a request needs one that is good enough for its route. Without any, only programs of this machine
are let in: a web page that reaches for the service through somebody's browser is not one of them.
"""

import logging
import re
from collections.abc import MutableMapping
from time import monotonic
from typing import Any

from service import logs
from service.errors import Forbidden, Unauthorized
from service.web.access.callers import caller
from service.web.access.declarations import ROUND, Access
from service.web.access.keys import Key, KeyRing, Role
from service.web.access.rate_limits import Bucket, RateLimits, address_of
from service.web.http.bodies import Header, Send

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_LOCAL_HOST = re.compile(
    rb"(localhost|[a-z0-9-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE
)

log = logging.getLogger(__name__)


class Gate:
    """Lets requests in, or says why not. `local_only`: requests must be for this machine by name, too."""

    def __init__(
        self,
        ring: KeyRing | None,
        rates: RateLimits | None,
        *,
        local_only: bool,
        host: str,
        origins: frozenset[str],
    ) -> None:
        self._ring = ring
        self._rates = rates
        self._local_only = local_only
        self._host_seen = b""
        self._host = re.compile(re.escape(host.encode()) + rb"(:\d+)?", re.IGNORECASE)
        self._origins = origins
        self._refusals = logs.Seldom()

    def admit(self, scope: MutableMapping[str, Any], needed: Access, send: Send) -> Send:
        """A `send` for the answer; Unauthorized, Forbidden or HttpError for who may not come in."""
        headers: list[Header] = scope["headers"]
        if self._local_only:
            self._check_host(headers)
        # Rounds are sent as JSON or lines of it, which browsers send to other sites only with their leave.
        if self._ring is None and scope["method"] in UNSAFE and needed is not ROUND:
            self._check_site(headers)
        if needed.role is Role.OPEN:
            return send
        key = self._key(headers, scope) if self._ring is not None else None
        if self._rates is None:
            limited = send
        else:
            who = f"key {key.name}" if key is not None else address_of(scope.get("client"))
            limited = _counted(send, self._rates.take(who))
        if key is not None:
            if key.role < needed.role:
                role = needed.role.name.lower()
                raise Forbidden(f"this needs a key with the role {role!r}")
            if key.prefix and not needed.tenants:
                raise Forbidden("this needs a key for all models")
            caller.set(key)
        return limited

    def _key(self, headers: list[Header], scope: MutableMapping[str, Any]) -> Key:
        assert self._ring is not None
        sent = presented(headers)
        if len(sent) == 1:
            key = self._ring.find(*sent)
            if key is not None:
                return key
        if (held_back := self._refusals.turn()) is not None:
            client = scope.get("client")
            fields = {"client": client[0] if client else None, "others": held_back}
            log.warning("refused: a request without a key that counts", extra=fields)
        if not sent:
            raise Unauthorized("send a key as `Authorization: Bearer …` or as `X-API-Key: …`")
        raise Unauthorized("this key does not count" if len(sent) == 1 else "send one key, not several")

    def _check_host(self, headers: list[Header]) -> None:
        for name, host in headers:
            if name == b"host" and host != self._host_seen:
                if not (_LOCAL_HOST.fullmatch(host) or self._host.fullmatch(host)):
                    raise Forbidden("without keys, only requests to this machine by its own name are taken")
                self._host_seen = host

    def _check_site(self, headers: list[Header]) -> None:
        said = dict(headers)
        origin, site = said.get(b"origin"), said.get(b"sec-fetch-site")
        if origin is None or self._allows(origin):
            return
        own = site in (b"same-origin", b"none") if site else origin.partition(b"://")[2] == said.get(b"host")
        if not own:
            raise Forbidden("without keys, nothing is changed for pages of other sites")

    def _allows(self, origin: bytes) -> bool:
        return not self._origins.isdisjoint({"*", origin.decode("latin-1")})


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


def _counted(send: Send, bucket: Bucket) -> Send:
    """A `send` that says in the answer's head how much is left."""

    async def send_counted(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *bucket.headers(monotonic())]
        await send(message)

    return send_counted
