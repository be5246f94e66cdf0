"""The consumer of a follower, on a cluster whose answers may get lost."""

from collections.abc import AsyncIterator

import pytest

from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.connecting import Access, Link
from service.journal.jetstream.link.following import Follower
from tests.support.nats_servers import NatsCluster

STREAM = "consumers"


async def ignore(message: Message) -> None:
    pass


@pytest.fixture
async def link(nats_cluster: NatsCluster) -> AsyncIterator[Link]:
    link = Link(Access(tuple(server.url for server in nats_cluster.servers)))
    await link.open()
    yield link
    await link.close()


@pytest.mark.parametrize("all_of_stream", [False, True])
async def test_a_consumer_that_is_asked_for_again_after_its_answer_was_lost_is_had(
    link: Link, all_of_stream: bool
) -> None:
    api = Api(link)
    subjects = [f"{STREAM}.a", f"{STREAM}.b"]
    config = {"name": STREAM, "subjects": subjects, "num_replicas": 3}
    await api.request(f"STREAM.CREATE.{STREAM}", config)
    follower = Follower(link, api, STREAM, subjects, ignore, all_of_stream=all_of_stream)
    await follower.start(0)
    assert follower._subscription is not None
    for _ in range(3):
        await follower._ask_for_consumer(follower._subscription.subject)
    await follower.stop()
