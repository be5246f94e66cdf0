"""A cluster whose streams 0.1.0 has written is followed to the same answers."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.errors import ClusterUnusable
from service.journal.jetstream.format import FORMAT_VERSION, compare
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access, Link
from service.journal.jetstream.subjects import Subjects
from tests.golden.archives import FILES, unpack
from tests.golden.fleet import OPENED_WITH
from tests.golden.make import PREFIX
from tests.golden.transcripts import assert_same, load
from tests.support.forkserver import run
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service

pytestmark = pytest.mark.thorough


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One with the streams of version 0.1.0."""
    unpack(FILES / "streams.tar.xz", tmp_path / "nats" / "store")
    server = NatsServer(tmp_path / "nats").start()
    server.wait_until_healthy()
    yield server
    server.kill()


def test_streams_of_version_0_1_0_give_the_same_answers(
    server: NatsServer, start: Callable[..., Service]
) -> None:
    assert asyncio.run(format_told(server)) is None
    asyncio.run(compare_as_0_1_0(server))
    told = load(FILES / "streams.json.xz")
    service = start(**OPENED_WITH, **server.settings(PREFIX))
    assert asyncio.run(format_told(server)) == str(FORMAT_VERSION).encode()
    with pytest.raises(ClusterUnusable, match="golden-state exists, but subjects"):
        asyncio.run(compare_as_0_1_0(server))
    assert_same(service, told["found"])
    assert service.stop() == 0
    service.start()
    assert_same(service, told["found"])
    assert_same(service, told["done"])
    assert_same(service, told["left"])
    assert service.stop() == 0
    service.start()
    assert_same(service, told["left"])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (str(FORMAT_VERSION + 1), f"format {FORMAT_VERSION + 1}, and this program supports {FORMAT_VERSION}"),
        ("unheard of", "should hold the version of the streams"),
    ],
)
def test_streams_of_another_version_are_refused_and_left_as_they_are(
    server: NatsServer, told: str, words: str
) -> None:
    asyncio.run(format_told(server, told.encode()))
    ended = run("serve", "--port", "0", **server.settings(PREFIX), **OPENED_WITH)
    assert ended.returncode == 2 and words in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
    assert asyncio.run(format_told(server)) == told.encode()


async def compare_as_0_1_0(server: NatsServer) -> None:
    """As 0.1.0 compares the state stream when it starts."""
    link = Link(Access((server.url,)))
    await link.open()
    try:
        kinds = ("snap", "point", "page", "blob", "sum", "wait", "mark")
        name, subjects = f"{PREFIX}-state", [f"{PREFIX}.{kind}.>" for kind in kinds]
        compare({"name": name, "subjects": subjects}, await Api(link).config(name))
    finally:
        await link.close()


async def format_told(server: NatsServer, instead: bytes | None = None) -> bytes | None:
    """Which version the streams tell; `instead` is put in its place."""
    link = Link(Access((server.url,)))
    await link.open()
    try:
        if instead is not None:
            await link.client.request(Subjects(PREFIX).format, instead)
        found = await Api(link).last_from_leader(f"{PREFIX}-state", Subjects(PREFIX).format)
        return found.data if found is not None else None
    finally:
        await link.close()
