"""The settings of the page on proxies, run by those proxies, with rounds, streams and the feed going through them."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from novikoff import Client
from tests.support.markdown import DOCS, rows_of, section
from tests.support.missing_programs import missing
from tests.support.raw_http import read_until
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

SHORT_STREAMS = 200
LONG_STREAM_LINES = 20_000
TRAILERS = 50
STARTS_MAX = 3
"""Another program may take a port that was free a moment ago."""


def settings_of(name: str, service: Service, port: int) -> str:
    """What the page says, with the addresses of this test."""
    (block,) = re.findall(rf"```{name}\n(.*?)```", DOCS["how-to.md"], re.DOTALL)
    return block.replace("127.0.0.1:8000", service.url.removeprefix("http://")).replace("8080", str(port))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture(scope="module", params=["haproxy", "nginx", "caddy"])
def proxied(
    request: pytest.FixtureRequest, shared_service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The name of a proxy that runs before the service, and its address."""
    name: str = request.param
    program = shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        missing(f"no {name}: apt-get install {name}")
    folder = tmp_path_factory.mktemp(name)
    own_home = {"XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}  # Caddy keeps things there
    for _ in range(STARTS_MAX):
        port = free_port()
        (folder / "settings").write_text(settings_of(name, shared_service, port))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command_of(program, folder), stdout=log, stderr=log, env=os.environ | own_home
            )
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: process.poll() is not None or is_ready(url), otherwise=folder / "log")  # noqa: B023
            if process.poll() is None:
                yield name, url
                return
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
    pytest.fail((folder / "log").read_text())


def command_of(program: str, folder: Path) -> list[str]:
    if program.endswith("haproxy"):
        return [program, "-f", str(folder / "settings")]
    if program.endswith("caddy"):
        return [program, "run", "--adapter", "caddyfile", "--config", str(folder / "settings")]
    own = f"daemon off; pid {folder}/pid; error_log stderr; master_process off;"
    return [program, "-p", str(folder), "-c", str(folder / "settings"), "-g", own]


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", verify=NO_TLS).status_code == 200
    except httpx.RequestError:
        return False


def test_rounds_and_streams_of_many_requests_go_through(proxied: tuple[str, str], name: str) -> None:
    with Client(proxied[1]) as client:
        served = client.predict(name, [1.0, 2.0])
        assert client.feedback(served.prediction_id, -1).rounds == 1
        *_, last = client.learn_many(name, [([1.0, 2.0], -1)] * 600, safe=False)
        assert last.rounds == 601


def test_every_line_of_short_streams_is_answered(proxied: tuple[str, str], name: str) -> None:
    """A proxy in Go drops what is left of a body once the answer begins: then lines are lost, now and then."""
    lines = b'{"features": [1.0, 2.0], "label": 1}\n' * 250
    with httpx.Client(verify=NO_TLS, timeout=PATIENCE_SECONDS) as client:
        for _ in range(SHORT_STREAMS):
            answer = client.post(
                f"{proxied[1]}/stream?model={name}",
                content=lines,
                headers={"content-type": "application/x-ndjson"},
            )
            assert (answer.status_code, answer.text.count("\n")) == (200, 250)


def test_the_feed_goes_through_as_it_comes(proxied: tuple[str, str], name: str) -> None:
    with Client(proxied[1]) as client:
        client.learn(name, [1.0, 2.0], 1)
        frames = client.feed(name)
        assert next(frames).kind == "snapshot"
        client.learn(name, [1.0, 2.0], 1)
        assert any(frame.data["rounds"]["revealed"] == 2 for frame in frames)
        frames.close()


def test_a_trailer_does_not_end_the_connection_that_the_proxy_keeps(proxied: tuple[str, str]) -> None:
    """HAProxy passes trailers on, and sends later requests, of other clients too, on the same connection."""
    url = httpx.URL(proxied[1])
    head = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    trailing = head + b"transfer-encoding: chunked\r\n\r\n0\r\nconnection: close\r\n\r\n"
    for _ in range(TRAILERS):
        with (
            socket.create_connection((url.host, url.port), timeout=PATIENCE_SECONDS) as connection,
            httpx.Client(base_url=url, verify=NO_TLS, timeout=PATIENCE_SECONDS) as other,
        ):
            assert other.get("/livez").status_code == 200
            for sent in (trailing, head + b"\r\n"):
                connection.sendall(sent)
                assert read_until(connection, b'"live"}').startswith(b"HTTP/1.1 200")
                assert other.get("/livez").status_code == 200


def test_one_long_stream_goes_through_where_the_page_says_so(proxied: tuple[str, str], name: str) -> None:
    (row,) = (
        row for row in rows_of(section("Run behind nginx", DOCS["how-to.md"])) if row[0].lower() == proxied[0]
    )
    if row[3].startswith("no"):
        return
    lines = (b'{"features": [1.0, 2.0], "label": 1}\n' * 500 for _ in range(LONG_STREAM_LINES // 500))
    answer = httpx.post(
        f"{proxied[1]}/stream?model={name}&answers=summary", content=lines, timeout=PATIENCE_SECONDS, verify=NO_TLS,
        headers={"content-type": "application/x-ndjson"},
    )  # fmt: skip
    assert answer.status_code == 200
    with Client(proxied[1]) as client:
        assert client.stats(name).rounds.revealed == LONG_STREAM_LINES
