"""Clients that send everything before they read anything: most of those that people have."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.e2e.pages import ARGUMENTS, CHROMIUM
from tests.support.missing_programs import missing
from tests.support.raw_http import chunk, connect, read_until, stream_head
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS

LINES = 200_000
"""Their answers are far more than the buffers of a connection hold."""

NDJSON = {"content-type": "application/x-ndjson"}
LINE = b'{"features": [1.0, -0.5], "label": 1}\n'
BODY = LINE * LINES

Start = Callable[..., Service]


def rounds_in(answers: bytes) -> list[int | None]:
    return [json.loads(line).get("rounds") for line in answers.splitlines()]


def test_httpx_sends_any_number_of_lines_before_it_reads(service: Service, name: str) -> None:
    answer = service.client.post(f"/stream?model={name}", content=BODY, headers=NDJSON)
    assert rounds_in(answer.content) == list(range(1, LINES + 1))
    assert service.stats(name)["rounds"]["revealed"] == LINES


@pytest.mark.thorough
def test_urllib_does_too(service: Service, name: str) -> None:
    request = urllib.request.Request(f"{service.url}/stream?model={name}", BODY, NDJSON)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        request, timeout=PATIENCE_SECONDS
    ) as answer:
        assert rounds_in(answer.read()) == list(range(1, LINES + 1))


@pytest.mark.thorough
def test_a_page_in_a_browser_does_too(service: Service, name: str) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("browsers are driven with playwright: pip install playwright")
    if not CHROMIUM.exists():
        missing(f"the browser is {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_SECONDS * 1000
        )
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.goto(service.url)
        told: Any = page.evaluate(
            """async ([url, line, lines]) => {
                const headers = {"content-type": "application/x-ndjson"};
                const answer = await fetch(url, {method: "POST", headers, body: line.repeat(lines)});
                const answers = (await answer.text()).trimEnd().split("\\n");
                return [answers.length, JSON.parse(answers.at(-1)).rounds];
            }""",
            [f"/stream?model={name}", LINE.decode(), LINES],
        )
        browser.close()
    assert told == [LINES, LINES]


def test_curl_is_told_to_go_on_and_need_not_wait(service: Service, name: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(LINE * 1000)
    url = f"{service.url}/stream?model={name}"
    command = ["curl", "-sv", "--noproxy", "*", "--expect100-timeout", str(10 * PATIENCE_SECONDS),
               "-H", "Expect: 100-continue",
               "-H", "content-type: application/x-ndjson", "--data-binary", f"@{tmp_path / 'lines'}", url]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    assert b"< HTTP/1.1 100 Continue" in ran.stderr
    assert rounds_in(ran.stdout) == list(range(1, 1001))


def test_who_expects_to_be_told_to_go_on_is_told_before_the_answer_begins(
    service: Service, name: str
) -> None:
    with connect(service) as connection:
        head = stream_head(f"/stream?model={name}").removesuffix(b"\r\n") + b"expect: 100-continue\r\n\r\n"
        connection.sendall(head)
        received = read_until(connection, b"application/x-ndjson")
        assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")
        connection.sendall(chunk(LINE) + chunk(b""))
        read_until(connection, b"0\r\n\r\n")


# As much as there may be, and no more


def sent_and_unread(connection: socket.socket, lines: Iterator[bytes]) -> None:
    for line in lines:
        connection.sendall(chunk(line))
    connection.sendall(chunk(b""))


def answers_of(connection: socket.socket, pause_seconds: float = 0.0) -> list[dict[str, Any]]:
    """The lines of an answer, read to its end; with a pause after each part."""
    parts = []
    with HTTPResponse(connection) as answer:
        answer.begin()
        while part := answer.read1(65_536):
            parts.append(part)
            time.sleep(pause_seconds)
    return [json.loads(line) for line in b"".join(parts).splitlines()]


def test_more_answers_than_may_wait_end_the_stream_with_an_error(start: Start) -> None:
    service = start(stream_answers_bytes_max=1_000_000)
    answer = service.client.post("/stream?model=m", content=BODY, headers=NDJSON)
    *answers, last = [json.loads(line) for line in answer.content.splitlines()]
    assert [each["rounds"] for each in answers] == list(range(1, len(answers) + 1))
    assert last["error"]["code"] == "answers-untaken" and last["ended"]
    learned = service.stats("m")["rounds"]["revealed"]
    assert len(answers) <= learned < LINES
    assert f"{learned} lines" in last["error"]["detail"], "what was learned without an answer is told"
    service.assert_replay_equals_live("m")
    again = service.client.post("/stream?model=m", content=LINE * 100, headers=NDJSON)
    assert rounds_in(again.content) == list(range(learned + 1, learned + 101)), "all else goes on"


def test_who_reads_slowly_is_slowed_down_and_loses_nothing(start: Start) -> None:
    """With little room for answers that wait: whoever takes some is sent all."""
    service = start(stream_answers_bytes_max=1_000_000)
    lines = 40_000
    with connect(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.sendall(stream_head("/stream?model=m"))
        sending = Thread(target=sent_and_unread, args=(connection, (LINE * 100 for _ in range(lines // 100))))
        sending.start()
        answers = answers_of(connection, pause_seconds=0.02)
        sending.join()
    assert [answer.get("rounds") for answer in answers] == list(range(1, lines + 1))


def test_answers_wait_in_no_file_that_is_left_behind(start: Start) -> None:
    service = start()
    service.client.post("/stream?model=m", content=BODY, headers=NDJSON)
    assert {path.name.split("-")[0] for path in service.data.iterdir()} <= {
        "acknowledged", "identity", "journal.sqlite", "lock",
    }, sorted(service.data.iterdir())  # fmt: skip
