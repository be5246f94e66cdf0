"""A cluster that will not do is refused at the start, with a line that says why."""

import asyncio
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.commands.serve import Server
from service.errors import ClusterUnusable
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access, Link
from service.runtime.listening import listen
from service.settings import Settings
from tests.support.forkserver import run
from tests.support.nats_operator import Operator
from tests.support.nats_servers import NatsServer
from tests.support.ports import free_ports
from tests.support.service_process import Service


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    servers: list[NatsServer] = []

    def start_one(**how: str) -> NatsServer:
        server = NatsServer(tmp_path / f"nats{len(servers)}", **how).start()
        servers.append(server)
        server.wait_until_healthy()
        return server

    yield start_one
    for server in servers:
        server.kill()


def refused(**settings: object) -> str:
    """What `novikoff serve` says when it refuses to start."""
    ended = run("serve", "--port", "0", **settings)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("novikoff: ")]
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_servers_that_do_not_sync_every_write_are_refused_unless_allowed(
    start_server: Callable[..., NatsServer], tmp_path: Path
) -> None:
    settings = start_server(sync="2m").settings("t")
    said = refused(**settings)
    assert "does not sync every write" in said and "sync_interval: always" in said
    allowed = Service(tmp_path, **settings, journal_allow_unsynced="true").start()
    assert allowed.learn("m", [1.0], -1)["rounds"] == 1
    allowed.close()


def test_servers_that_cannot_be_asked_are_refused(nats_server: NatsServer) -> None:
    (nobody,) = free_ports(1)
    said = refused(**nats_server.settings("t") | {"nats_monitor": f"http://127.0.0.1:{nobody}"})
    assert f"127.0.0.1:{nobody}" in said and "NOVIKOFF_NATS_MONITOR" in said


def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.jetstream = False
    server.start()
    server.wait_until_healthy()
    try:
        assert "without JetStream" in refused(**server.settings("t"))
    finally:
        server.kill()


def test_an_old_server_is_refused() -> None:
    """A stand-in that introduces itself as one: such old programs cannot be installed any more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def introduce() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(
                    b'INFO {"server_id":"old","version":"2.9.15","max_payload":1048576,"jetstream":true}\r\n'
                )
                while sent := connection.recv(4096):
                    if b"PING" in sent:
                        connection.sendall(b"PONG\r\n")

    threading.Thread(target=introduce, daemon=True).start()
    port = listener.getsockname()[1]
    said = refused(journal=f"nats://127.0.0.1:{port}", journal_allow_unsynced="true")
    listener.close()
    assert "2.9.15" in said and "2.12 or newer" in said


def test_nobody_there_is_told(nats_server: NatsServer) -> None:
    (nobody,) = free_ports(1)
    said = refused(**nats_server.settings("t") | {"journal": f"nats://user:secret@127.0.0.1:{nobody}"})
    assert f"127.0.0.1:{nobody}" in said and "secret" not in said


def test_a_cluster_that_goes_away_during_the_start_is_told_in_a_line(
    start_server: Callable[..., NatsServer], capsys: pytest.CaptureFixture[str]
) -> None:
    nats = start_server()
    settings = Settings(**nats.settings("t"))
    server = Server(settings, connections_max=10)
    nats.kill()
    sockets = listen(settings.host, 0)
    with pytest.raises(ClusterUnusable, match="no NATS server accepts the connection"):
        server.run(sockets)
    sockets[0].close()
    assert "Traceback" not in "".join(capsys.readouterr())


def test_streams_that_are_different_are_refused_and_the_difference_is_named(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    settings = nats_server.settings(f"t{os.urandom(6).hex()}")
    Service(tmp_path, **settings).start().close()
    said = refused(**settings, pending_ttl_seconds=3600)
    assert "max_age" in said and "NOVIKOFF_NATS_PREFIX" in said
    assert "num_replicas" in refused(**settings | {"nats_replicas": 3})


def test_a_stream_that_was_edited_fits_the_new_setting(nats_server: NatsServer, tmp_path: Path) -> None:
    """Another `pending_ttl_seconds`, as docs/scaling.md describes it."""
    settings = nats_server.settings(f"t{os.urandom(6).hex()}")
    service = Service(tmp_path, **settings).start()
    service.learn("m", [1.0], -1)
    service.close()

    async def edit() -> None:
        link = Link(Access((nats_server.url,)))
        await link.open()
        api, stream = Api(link), f"{settings['nats_prefix']}-ids"
        config = (await api.request(f"STREAM.INFO.{stream}"))["config"]
        await api.request(f"STREAM.UPDATE.{stream}", {**config, "max_age": 7200 * 10**9})
        await link.close()

    asyncio.run(edit())
    again = Service(tmp_path, **settings, pending_ttl_seconds=3600).start()
    assert again.learn("m", [1.0], -1)["rounds"] == 2
    again.close()


def test_more_copies_than_servers_are_refused(nats_server: NatsServer) -> None:
    assert "cannot be created" in refused(**nats_server.settings("too-many") | {"nats_replicas": 3})


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ('authorization { user: "u", password: "p" }', {"nats_user": "u", "nats_password": "p"}),
        ('authorization { token: "a-token" }', {"nats_token": "a-token"}),
    ],
    ids=["password", "token"],
)
def test_who_may_come_in_comes_in_and_others_are_refused(
    start_server: Callable[..., NatsServer], tmp_path: Path, more: str, settings: dict[str, object]
) -> None:
    server = start_server(more=more)
    assert "no NATS server accepts the connection" in refused(**server.settings("t"))
    service = Service(tmp_path, **server.settings("t"), **settings).start()
    assert service.learn("m", [1.0], -1)["rounds"] == 1
    service.close()


def test_tls_with_certificates_on_both_sides(start_server: Callable[..., NatsServer], tmp_path: Path) -> None:
    files = certificates(tmp_path)
    server = start_server(
        more=f'tls {{ cert_file: "{files["server"]}.pem", key_file: "{files["server"]}.key",'
        f' ca_file: "{files["ca"]}.pem", verify: true }}'
    )
    settings = server.settings("t")
    assert "no NATS server accepts the connection" in refused(**settings, nats_ca=f"{files['ca']}.pem")
    assert "TLS files" in refused(**settings, nats_ca="nowhere.pem")
    service = Service(
        tmp_path,
        **settings,
        nats_ca=f"{files['ca']}.pem",
        nats_certificate=f"{files['client']}.pem",
        nats_key=f"{files['client']}.key",
    ).start()
    assert service.learn("m", [1.0], -1)["rounds"] == 1
    service.close()


def certificates(directory: Path) -> dict[str, Path]:
    """An authority, and what it signed for a server and a client: paths without their endings."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=ca", "-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out",
                f"{name}.pem", "-days", "2", "-copy_extensions", "copyall")  # fmt: skip
    return {name: directory / name for name in ("ca", "server", "client")}


def test_a_file_with_credentials_lets_in_where_an_operator_has_signed_who_may(
    start_server: Callable[..., NatsServer], tmp_path: Path
) -> None:
    operator = Operator(disk_storage=1_000_000_000, streams=3, consumer=2)  # what one replica needs
    settings = start_server(more=operator.config).settings("t")
    assert "no NATS server accepts the connection" in refused(**settings)
    stranger = Operator().write_credentials(tmp_path / "stranger.creds")
    assert "no NATS server accepts the connection" in refused(**settings, nats_credentials=stranger)
    ours = operator.write_credentials(tmp_path / "ours.creds")
    service = Service(tmp_path, **settings, nats_credentials=ours).start()
    assert service.learn("m", [1.0], -1)["rounds"] == 1
    service.close()


def test_an_account_that_may_not_have_the_streams_is_told(
    start_server: Callable[..., NatsServer], tmp_path: Path
) -> None:
    operator = Operator(disk_storage=1_000_000_000, streams=2, consumer=-1)
    settings = start_server(more=operator.config).settings("t")
    said = refused(**settings, nats_credentials=operator.write_credentials(tmp_path / "ours.creds"))
    assert "maximum number of streams reached" in said


def test_credentials_that_are_not_there_or_not_whole_are_named(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    whole = Operator().write_credentials(tmp_path / "whole").read_text()
    token, seed = whole.split("\n\n")
    (tmp_path / "token").write_text(token)
    (tmp_path / "seed").write_text(seed)
    for file, why in (
        ("nowhere", "No such file"),
        ("token", "has no USER NKEY SEED"),
        ("seed", "has no NATS USER JWT"),
    ):
        said = refused(**nats_server.settings("t"), nats_credentials=tmp_path / file)
        assert said.startswith(f"novikoff: NOVIKOFF_NATS_CREDENTIALS: {tmp_path / file}") and why in said
