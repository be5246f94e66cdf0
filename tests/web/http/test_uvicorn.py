"""The service runs with the oldest uvicorn that pyproject.toml allows as it does with the one that is installed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.markdown import ROOT
from tests.support.missing_programs import missing
from tests.support.raw_http import connect, problem_in, read_to_end, read_until, request
from tests.support.service_process import Service
from tests.web.raw import HOST, said, statuses

OLDEST = ROOT / ".venv" / "oldest-uvicorn"
"""Where `make test-rest` installs it."""

ROUND = b'{"model": "m", "features": [1.0], "label": 1}'
LAST = b"GET /nothing HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("installed", marks=pytest.mark.slow),
        pytest.param("oldest", marks=pytest.mark.thorough),
    ],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(
        tmp_path_factory.mktemp("uvicorn") / "data", connections_max=3, request_timeout_seconds=2
    )
    python: tuple[str, ...] = (sys.executable,)
    if request.param == "oldest":
        if not (OLDEST / "uvicorn").is_dir():
            missing("no older uvicorn: make test-rest")
        python = ("env", f"PYTHONPATH={OLDEST}", sys.executable, "-W", "error::DeprecationWarning:uvicorn")
    service.program = (*python, "-m", "service")
    service.start(cold=True)
    yield service
    service.close()


@pytest.mark.thorough
def test_the_oldest_version_is_the_one_that_is_tested() -> None:
    if not OLDEST.is_dir():
        missing("no older uvicorn: make test-rest")
    (found,) = OLDEST.glob("uvicorn-*.dist-info")
    oldest = found.name.removeprefix("uvicorn-").removesuffix(".dist-info")
    assert f'"uvicorn>={oldest},<1"' in (ROOT / "pyproject.toml").read_text()
    code = "import uvicorn; print(uvicorn.__version__)"
    environment = os.environ | {"PYTHONPATH": str(OLDEST)}
    imported = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert imported.stdout.strip() == oldest


def test_requests_of_every_kind_are_answered_in_order(served: Service) -> None:
    whole = request("/learn", ROUND)
    head = b"POST /learn HTTP/1.1\r\n" + HOST + b"content-type: application/json\r\n"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(ROUND), ROUND)
    assert statuses(said(served, whole * 3 + chunked + whole + LAST)) == [200] * 5 + [404]
    with connect(served) as connection:
        for _ in range(3):  # the head is cached from the second one on
            connection.sendall(whole)
            assert b'"mistake"' in read_until(connection, b"}")
        connection.sendall(head + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(ROUND))
        assert b" 100 Continue" in read_until(connection, b"\r\n\r\n")
        connection.sendall(ROUND)
        assert b'"mistake"' in read_until(connection, b"}")


def test_what_a_client_may_hold_is_limited(served: Service) -> None:
    many_fields = b"GET /livez HTTP/1.1\r\n" + HOST + b"a:\r\n" * 300
    assert problem_in(said(served, many_fields)) == (431, "head-too-large")
    assert problem_in(said(served, b"GET /livez HTTP/1.1\r\n" + HOST)) == (408, "request-timeout")


def test_it_stops_when_it_is_told_to_and_answers_what_is_under_way(tmp_path: Path, served: Service) -> None:
    with connect(served) as stream:
        stream.sendall(request("/stream", ROUND + b"\n", media_type="application/x-ndjson", length=1_000))
        assert served.stop() == 0
        assert b" 200 " in read_to_end(stream)
    assert not [line for line in served.log if "Traceback" in line or "unexpected error" in line]
