"""The connection to the cluster, which reconnects by itself, and the credentials for it."""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

from nats.aio.client import Client

from service.errors import ClusterUnusable, InvalidSettings, JournalUnavailable

log = logging.getLogger(__name__)

OLDEST_SERVER = (2, 12)
CONNECT_SECONDS = 5.0
PING_SECONDS = 2
"""How often the server is pinged; after two pings without an answer the connection is given up."""

DOWN_SECONDS = 2.0
"""A connection that is lost for longer than this fails requests at once."""


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses of the servers, and the credentials and TLS files for them. Empty: not used."""

    servers: tuple[str, ...]
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def options(self) -> dict[str, Any]:
        """The options of the nats-py client; InvalidSettings if a file cannot be used."""
        given = {
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": self.credentials,
        }
        options: dict[str, Any] = {name: value for name, value in given.items() if value}
        if self.credentials:
            self._check_credentials()
        if self.ca or self.certificate or any(server.startswith("tls:") for server in self.servers):
            options["tls"] = self._tls()
        return options

    def _check_credentials(self) -> None:
        """InvalidSettings unless the file has both of its parts: without the first, nats-py would loop for ever."""
        try:
            text = Path(self.credentials).read_text(errors="replace")
        except OSError as error:
            why = f"{self.credentials}: {error.strerror}"
            raise InvalidSettings(f"NOVIKOFF_NATS_CREDENTIALS: {why}") from error
        for part in ("NATS USER JWT", "USER NKEY SEED"):
            if f"-----BEGIN {part}-----\n" not in text:
                raise InvalidSettings(f"NOVIKOFF_NATS_CREDENTIALS: {self.credentials} has no {part}")

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as error:
            raise InvalidSettings(f"the files for TLS cannot be used: {error}") from error
        return context


def _is_refusal(error: Exception) -> bool:
    """Whether a server has refused the connection, and would refuse it again."""
    return isinstance(error, ssl.SSLError) or "authorization" in str(error).lower()


class Link:
    """The connection, and whether it is down."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._down_since: float | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        self.client = Client()
        refusal: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        last: list[Exception] = []

        async def failed(error: Exception) -> None:
            log.debug("nats: %s", error)
            last[:] = [error]
            if _is_refusal(error) and not refusal.done():
                refusal.set_result(error)

        connecting = asyncio.create_task(
            self.client.connect(
                servers=list(self._access.servers),
                name="novikoff",
                error_cb=failed,
                disconnected_cb=self._disconnected,
                reconnected_cb=self._reconnected,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type]
                connect_timeout=2,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=2,
                **self._access.options(),
            )
        )
        both: list[asyncio.Future[Any]] = [connecting, refusal]
        await asyncio.wait(both, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done() or connecting.exception() is not None:
            failure = connecting.exception() if connecting.done() else None
            connecting.cancel()
            why = refusal.result() if refusal.done() else failure or (last[0] if last else TimeoutError())
            where = ", ".join(server.rpartition("@")[2] for server in self._access.servers)
            raise ClusterUnusable(f"no NATS server lets us in at {where}: {str(why) or type(why).__name__}")
        try:
            self._check_server()
        except ClusterUnusable:
            await self.close()
            raise

    def _check_server(self) -> None:
        info = self.client._server_info
        version = info.get("version", "0.0")
        parts = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
        if parts < OLDEST_SERVER:
            raise ClusterUnusable(
                f"the NATS server is version {version}; {'.'.join(map(str, OLDEST_SERVER))} or newer is needed"
            )
        if not info.get("jetstream"):
            raise ClusterUnusable(
                "the NATS server runs without JetStream: start it with a `jetstream` section"
            )

    async def close(self) -> None:
        await self.client.close()

    @property
    def payload_bytes_max(self) -> int:
        return int(self.client.max_payload)

    @property
    def is_up(self) -> bool:
        return bool(self.client.is_connected)

    @property
    def is_down_for_long(self) -> bool:
        return self._down_since is not None and monotonic() - self._down_since > DOWN_SECONDS

    def check(self) -> None:
        """JournalUnavailable if the connection is lost for longer than DOWN_SECONDS."""
        if self.is_down_for_long:
            raise JournalUnavailable("no server of the journal's cluster can be reached")

    async def _disconnected(self) -> None:
        if self._down_since is None and not self.client.is_closed:
            self._down_since = monotonic()
            log.warning("the connection to the journal's cluster is lost")

    async def _reconnected(self) -> None:
        if self._down_since is not None:
            seconds = round(monotonic() - self._down_since, 3)
            log.info("connected to the journal's cluster again", extra={"seconds": seconds})
        self._down_since = None
