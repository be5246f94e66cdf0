"""Records in the cluster that cannot be read: whoever asks for them is told."""

import asyncio
import os

import pytest

from service.errors import JournalUnavailable
from service.events import ModelCreated, Prediction, RoundLearned
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.subjects import Subjects
from tests.journal.journals import LIFE, jetstream_options
from tests.support.nats_servers import NatsServer
from tests.support.waiting import PATIENCE_SECONDS


async def test_an_append_whose_id_cannot_be_read_fails_instead_of_waiting_for_ever(
    nats_server: NatsServer,
) -> None:
    options = jetstream_options(nats_server, f"t{os.urandom(6).hex()}")
    journal = JetStreamJournal(options)
    await journal.open(lambda seq, event: None)
    await journal.append(ModelCreated("m", 1, {"any": "settings"}))
    await journal._publisher.publish(Subjects(options.prefix).id("odd"), b"\xc1")
    with pytest.raises(JournalUnavailable, match="cannot read"):
        await asyncio.wait_for(journal.append(RoundLearned("m", 2, "odd", 1, b"x"), LIFE), PATIENCE_SECONDS)
    kept = journal.put_pending(Prediction("odd", "m", 2, b"x", 1, 0.5, 0, 0), LIFE, wait=True)
    assert kept is not None
    with pytest.raises(JournalUnavailable, match="cannot read"):
        await asyncio.wait_for(kept, PATIENCE_SECONDS)
    await journal.close()
