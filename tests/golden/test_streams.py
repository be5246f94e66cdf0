"""A cluster whose streams 0.1.0 has written is followed to the same answers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.golden.archives import FILES, unpack
from tests.golden.fleet import OPENED_WITH
from tests.golden.make import PREFIX
from tests.golden.transcripts import assert_same, load
from tests.nats_servers import NatsServer
from tests.running import Service


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
    told = load(FILES / "streams.json.xz")
    service = start(**OPENED_WITH, **server.settings(PREFIX))
    assert_same(service, told["found"])
    assert service.stop() == 0
    service.start()
    assert_same(service, told["found"])
    assert_same(service, told["done"])
    assert_same(service, told["left"])
    assert service.stop() == 0
    service.start()
    assert_same(service, told["left"])
