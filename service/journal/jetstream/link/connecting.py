"""The connection to the cluster, which reconnects by itself, the credentials for it, and questions between replicas."""

import asyncio
import logging
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from service.errors import ClusterUnusable, InvalidSettings, JournalUnavailable
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Answer

log = logging.getLogger(__name__)

OLDEST_SERVER = (2, 12)
CONNECT_SECONDS = 5.0
PING_SECONDS = 2
"""How often the server is pinged; after two pings without an answer the connection is given up."""

DOWN_SECONDS = 2.0
"""A connection that is lost for longer than this fails requests at once."""

ANSWER_SECONDS = 2.0
GONE_SECONDS = DOWN_SECONDS
"""How long a replica has to be missing until it counts as gone: one that just connects again is there soon."""

RETRY_SECONDS = 0.1
ALL_SECONDS = 0.3
"""How long the answers to a question to all are waited for: nobody knows how many will come."""

EVERYONE = "everyone"
"""Stands for all replicas; the name of one is made of hexadecimal digits."""

FROM = "Novikoff-From"
"""The header of a question to all with the name of the replica that asks, which need not answer itself."""

WAITING_MAX = 1_000
"""Questions that may wait for an answer here; more are dropped, and the asking replica asks again."""


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
            raise InvalidSettings(f"the TLS files cannot be used: {error}") from error
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
            raise ClusterUnusable(
                f"no NATS server accepts the connection at {where}: {str(why) or type(why).__name__}"
            )
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


class Asking:
    """The questions of this replica to others, and theirs to it: outside of the streams, nothing of them is kept."""

    def __init__(self, link: Link, subjects: Subjects) -> None:
        self._link = link
        self._subjects = subjects
        self.replica = secrets.token_hex(4)

    async def answer(self, answer: Answer) -> None:
        await self._answer(self.replica, answer)

    async def answer_all(self, answer: Answer) -> None:
        await self._answer(EVERYONE, answer)

    async def _answer(self, name: str, answer: Answer) -> None:
        async def respond(message: Msg) -> None:
            if message.headers is None or message.headers.get(FROM) != self.replica:
                await message.respond(await answer(message.data))

        where = self._subjects.replica(name)
        await self._link.client.subscribe(where, cb=respond, pending_msgs_limit=WAITING_MAX)
        await self._link.client.flush()

    async def ask_all(self, question: bytes) -> list[bytes]:
        self._link.check()
        client, until = self._link.client, monotonic() + ALL_SECONDS
        inbox, found = client.new_inbox(), []
        try:
            answers = await client.subscribe(inbox)
            try:
                where = self._subjects.replica(EVERYONE)
                await client.publish(where, question, reply=inbox, headers={FROM: self.replica})
                while (left := until - monotonic()) > 0:
                    found.append((await answers.next_msg(timeout=left)).data)
            finally:
                await answers.unsubscribe()
        except NatsTimeoutError:
            pass  # no further responses in time
        except NatsError as error:
            raise JournalUnavailable("the other replicas cannot be reached") from error
        return found

    async def ask(self, replica: str, question: bytes) -> bytes | None:
        if replica in ("", self.replica):
            return None
        gone_at = monotonic() + GONE_SECONDS
        while True:
            self._link.check()
            try:
                where = self._subjects.replica(replica)
                return (await self._link.client.request(where, question, timeout=ANSWER_SECONDS)).data
            except NoRespondersError:
                if monotonic() > gone_at:
                    return None
            except NatsError as error:
                raise JournalUnavailable("the other replica does not respond") from error
            await asyncio.sleep(RETRY_SECONDS)
