"""How requests go over the wire: connections that are kept, TLS, proxies, and responses in every form that HTTP has."""

import asyncio
import gzip
import ssl
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, socket, socketpair
from socketserver import BaseRequestHandler, StreamRequestHandler, ThreadingTCPServer
from typing import Any

import httptools
import httpx
import pytest

from novikoff import AsyncClient, Client, Refused, Unreachable
from novikoff.async_connections import CONNECTIONS_MAX, _Connection
from novikoff.http1 import Parser
from tests.novikoff.conftest import Awaited, Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually, eventually_async

CALLER = b'{"role":"admin","prefix":""}'


def whole(body: bytes = CALLER, fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (fields, len(body), body)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n%s\r\n%x\r\n%s\r\n0\r\nx: y\r\n\r\n" % (
    *(CALLER[:8], len(CALLER) - 8, CALLER[8:]),
)  # fmt: skip
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\n" + CALLER
CUT = whole()[:-1]


class Scripted(ThreadingTCPServer):
    """Answers each request with the next bytes of a script; with None, not until the test is over."""

    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS_MAX

    def __init__(self, *script: bytes | None, closes: bool = False) -> None:
        self.script, self.requests, self.connections, self.closed = deque(script), 0, 0, 0
        self.over = threading.Event()
        server = self

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                server.connections += 1
                while lines := list(iter(lambda: self.rfile.readline().strip().lower(), b"")):
                    (length,) = [int(line[15:]) for line in lines if line.startswith(b"content-length:")] or [
                        0
                    ]
                    self.rfile.read(length)
                    server.requests += 1
                    if (answer := server.script.popleft()) is None:
                        server.over.wait(PATIENCE_SECONDS)
                        return
                    self.wfile.write(answer)
                    if closes:
                        return

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed += 1


@contextmanager
def running(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        if isinstance(server, Scripted):
            server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


# Responses


@pytest.mark.parametrize(
    "answer",
    [
        whole(),
        CHUNKED,
        TO_THE_END,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + whole(),
        whole(gzip.compress(CALLER), b"Content-Encoding: gzip\r\n"),
    ],
)
def test_a_response_is_read_however_it_is_framed_and_wherever_it_is_split(answer: bytes) -> None:
    for at in range(1, len(answer)):
        parser = Parser()
        parser.begin()
        first, second = parser.feed(answer[:at]), parser.feed(answer[at:])
        assert first is None
        response = parser.feed(b"") if answer == TO_THE_END else second
        assert response is not None and response.content == CALLER
        assert parser.keep_alive == (answer != TO_THE_END)


@pytest.mark.parametrize("answer", [CUT, CHUNKED[:-2], b"HTTP/1.1 200 OK\r\nserv", b"", whole() + whole()])
def test_a_response_that_ends_too_early_or_too_late_is_none(answer: bytes) -> None:
    parser = Parser()
    parser.begin()
    with pytest.raises(httptools.HttpParserError):
        for part in (answer, b""):
            assert parser.feed(part) is None


@pytest.mark.parametrize(
    "answer", [CHUNKED, TO_THE_END, whole(gzip.compress(CALLER), b"content-encoding: gzip\r\n")]
)
def test_a_call_reads_it_from_a_connection(connect: Connect, answer: bytes) -> None:
    with running(Scripted(answer, answer, closes=answer == TO_THE_END)) as server:
        client = connect(server.url)
        assert [client.whoami().role for _ in range(2)] == ["admin"] * 2


def test_a_connection_that_will_be_closed_is_not_used_again(connect: Connect) -> None:
    with running(Scripted(*[whole(fields=b"connection: close\r\n")] * 3)) as server:
        client = connect(server.url)
        assert [client.whoami().role for _ in range(3)] == ["admin"] * 3
    assert server.connections == 3


@pytest.mark.parametrize("answer", [CUT, b"HTTP/1.1 200 OK\r\nserv", b"", b"SSH-2.0-OpenSSH\r\n"])
def test_a_response_that_is_cut_or_none_is_asked_for_again_if_that_is_safe(
    connect: Connect, answer: bytes
) -> None:
    with running(Scripted(answer, answer, whole(), closes=True)) as server:
        client = connect(server.url)
        with pytest.raises(Unreachable, match=f"no response to POST /models at {server.url}: "):
            client.create_model("m")
        assert client.whoami().role == "admin"
    assert server.requests == 3


def test_a_service_that_does_not_answer_is_unreachable_when_the_time_is_over(connect: Connect) -> None:
    with running(Scripted(None)) as server:
        client = connect(server.url, timeout_seconds=0.05, retry_seconds=0.0)
        with pytest.raises(Unreachable, match=r"no response to GET /whoami at .*: timed out"):
            client.whoami()


def test_a_connection_that_the_service_closed_in_between_is_noticed_before_anything_is_sent(
    connect: Connect,
) -> None:
    """A call that is not safe to repeat would fail otherwise."""
    refused = b"HTTP/1.1 409 Conflict\r\ncontent-length: 35\r\n\r\n" + b'{"code":"model-exists","detail":""}'
    with running(Scripted(whole(), refused, closes=True)) as server:
        client = connect(server.url)
        client.whoami()
        eventually(lambda: server.closed == 1)
        with pytest.raises(Refused) as told:
            client.create_model("m")
    assert told.value.code == "model-exists" and server.requests == server.connections == 2


def test_a_request_that_is_refused_before_all_of_it_was_sent_is_refused(client: Any, name: str) -> None:
    with pytest.raises(Refused) as told:
        client.learn(name, [0.0] * 4_000_000, 1)
    assert told.value.status == 413


def test_a_client_that_is_closed_says_so(connect: Connect, service: Service) -> None:
    client = Client(service.url)
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.whoami()


async def test_a_time_limit_is_about_silence_not_about_slowness() -> None:
    ours, theirs = socketpair()
    with theirs:
        made = asyncio.get_running_loop().create_connection(lambda: _Connection(PATIENCE_SECONDS), sock=ours)
        _, connection = await made
        call = asyncio.create_task(connection.exchange(b"x" * 10_000_000))
        await asyncio.sleep(0)
        before = connection._transport.get_write_buffer_size()
        theirs.recv(1_000_000)
        await eventually_async(lambda: 0 < connection._transport.get_write_buffer_size() < before)
        connection._check()  # as when a time limit has passed
        for part in (whole()[:9], whole()[9:20]):
            theirs.send(part)
            await eventually_async(lambda: connection._has_received)
            connection._check()
        assert not call.done()
        connection._check()
        with pytest.raises(TimeoutError):
            await call


# Many at once


async def test_many_calls_at_once_share_a_hundred_connections() -> None:
    with running(Scripted(*[whole()] * 2 * CONNECTIONS_MAX)) as server:
        async with AsyncClient(server.url, timeout_seconds=PATIENCE_SECONDS) as client:
            await asyncio.gather(*(client.whoami() for _ in range(2 * CONNECTIONS_MAX)))
    assert server.requests == 2 * CONNECTIONS_MAX and server.connections <= CONNECTIONS_MAX


async def test_a_call_that_is_cancelled_leaves_its_response_to_no_other() -> None:
    with running(Scripted(None, whole())) as server:
        async with AsyncClient(server.url, timeout_seconds=PATIENCE_SECONDS) as client:
            call = asyncio.create_task(client.whoami())
            while not server.requests:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await client.whoami()).role == "admin"
    assert server.connections == 2


def test_threads_share_a_client(service: Service, name: str) -> None:
    with Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client, ThreadPoolExecutor(8) as threads:
        rounds = threads.map(lambda _: client.learn(name, [1.0], 1).rounds, range(80))
        assert sorted(rounds) == [*range(1, 81)]


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority that nobody trusts; its key is in the same file."""
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=novikoff", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", path.with_suffix(".cert")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + path.with_suffix(".cert").read_text())
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def play(client: Any, name: str) -> None:
    assert client.feedback(client.predict(name, [1.0]).prediction_id, -1).rounds == 1
    assert [outcome.rounds for outcome in client.learn_many(name, [([1.0], 1)] * 1_000)][-1] == 1_001
    assert len(list(client.history(name))) == 1_001


@pytest.mark.slow
def test_a_service_behind_tls_is_reached_if_its_certificate_is_trusted(
    connect: Connect,
    service: Service,
    name: str,
    tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FaultyProxy(service, tls=tls) as proxy:
        for url in (proxy.url, proxy.url.replace("127.0.0.1", "localhost")):
            with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                connect(url, retry_seconds=0.0).whoami()
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert not proxy.seen  # the certificate is not for localhost, however it is trusted
        play(connect(proxy.url), name)


# Proxies


class Tunnels(ThreadingTCPServer):
    """A proxy for `CONNECT`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        server = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += self.request.recv(1)
                server.asked.append(head.split(b"\r\n")[0])
                host, _, port = head.split()[1].decode().partition(":")
                with create_connection((host, int(port))) as target:
                    self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=pass_on, args=(target, self.request))
                    back.start()
                    pass_on(self.request, target)
                    back.join()

        super().__init__(("127.0.0.1", 0), Handler)


def pass_on(source: socket, target: socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(1)
    except OSError:
        pass


@pytest.mark.slow
def test_requests_go_over_the_proxy_of_the_environment(
    connect: Connect, service: Service, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyProxy(service) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        play(connect("http://novikoff.invalid:8000"), name)
        assert {request.split("/")[2] for request, _ in proxy.seen} == {"novikoff.invalid:8000"}
        proxy.seen.clear()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,.example.org")
        assert connect(service.url).whoami().role == "admin" and not proxy.seen


@pytest.mark.slow
def test_requests_under_tls_go_through_a_tunnel_of_the_proxy(
    connect: Connect,
    service: Service,
    name: str,
    tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FaultyProxy(service, tls=tls) as target, running(Tunnels()) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        client = connect(target.url)
        play(client, name)
        assert {*proxy.asked} == {f"CONNECT {target.url.removeprefix('https://')} HTTP/1.1".encode()}


def test_a_password_in_the_url_is_sent(connect: Connect, service: Service) -> None:
    with FaultyProxy(service) as proxy:
        connect(proxy.url.replace("://", "://ann:s3cret@")).whoami()
    assert proxy.seen[0][1]["Authorization"] == "Basic YW5uOnMzY3JldA=="


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_a_transport_of_httpx_takes_the_place_of_our_connections(kind: Any) -> None:
    client = kind(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=CALLER)))
    assert client.whoami().role == "admin"
    client.close()
