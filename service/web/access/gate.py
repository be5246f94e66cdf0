"""The gate before every route: who calls, whether they may, and how often.

With keys, a request needs one that is good enough for its route. Without any, programs of this machine are let in, or
everybody's; a web page that reaches for the service through somebody's browser is neither.
"""

import logging
from collections.abc import MutableMapping
from time import monotonic
from typing import Any

from service.errors import Forbidden, Unauthorized
from service.runtime import logs
from service.web.access.declarations import ROUND, Access
from service.web.access.host_names import HostNames
from service.web.access.keys import Key, KeyRing, Role
from service.web.access.rate_limits import Bucket, RateLimits
from service.web.access.refused_keys import RefusedKeys
from service.web.access.tenants import NO_LONGER_VALID, caller
from service.web.http.addresses import Proxies, caller_of
from service.web.http.bodies import Header, Send
from service.web.http.connection_limits import PROBES

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
                raise Forbidden(f"this needs a key with the role {role!r}")
            if key.prefix and not needed.tenants:
                raise Forbidden("this needs a key for all models")
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
            log.warning("refused: a request without a key that counts", extra=fields)
        if not sent:
            raise Unauthorized("send a key as `Authorization: Bearer …` or as `X-API-Key: …`")
        raise Unauthorized("this key does not count" if len(sent) == 1 else "send one key, not several")

    def _count(self, refused: RefusedKeys, key: Key | None, scope: MutableMapping[str, Any]) -> None:
        """Note whether an address has sent a key that counts; HttpError if it has to pause.

        A key that came from there before is let in all the same, so that nobody can lock out others of the address.
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
            raise Forbidden("without keys, nothing is changed for pages of other sites")

    def _allows(self, origin: bytes) -> bool:
        return not self._origins.isdisjoint({"*", origin.decode("latin-1")})


def _check_host(headers: list[Header], allowed: HostNames) -> None:
    for name, host in headers:
        if name == b"host" and not allowed.allow(host):
            raise Forbidden(
                "this service is not called so; NOVIKOFF_ALLOWED_HOSTS has the names that it is called by"
            )


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
