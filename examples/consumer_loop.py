"""A consumer of a log that is killed again and again, and learns every message exactly once.

Clicks wait in a log, here a stream of NATS JetStream; with Kafka it is the same. A consumer fetches some, has the
service learn each, and then acknowledges them. If it dies in between, the log delivers them to the next consumer
once more: each message comes at least once. Its place in the log is sent as the round's `id`, and the service learns
an id once, so that nothing is counted twice. Two consumers kill themselves in the worst moment here, and the third
one ends the work.

    pip install nats-py
    nats-server --jetstream &
    novikoff serve &
    python examples/consumer_loop.py
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
from contextlib import suppress

import nats
from nats.js.api import ConsumerConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from novikoff import DEFAULT_URL, AsyncClient, Refused

MODEL = "example-consumer-loop"
STREAM, SUBJECT, CONSUMER = "example-clicks", "example.clicks", "example-learner"
MESSAGES = 120
BATCH = 20
LIVES = [50, 25, None]
"""After how many messages each consumer dies, in the middle of a batch; the last one lives on."""

LOG_SECONDS = 60.0
"""How long the log may take for an answer. A consumer that gives up earlier dies of a busy machine."""

SETTINGS = ConsumerConfig(
    ack_wait=1.0,  # seconds until an unacknowledged message is delivered again
    max_ack_pending=BATCH,  # nothing more until then: so the order is kept
)


async def consume(url: str, log: JetStreamContext, dies_after: int | None) -> None:
    """Learn from the log until nothing is left in it."""
    messages = await log.pull_subscribe(SUBJECT, durable=CONSUMER, stream=STREAM, config=SETTINGS)
    learned = 0
    async with AsyncClient(url) as client:
        while True:
            batch = []
            with suppress(TimeoutError):  # nats-py raises its own, which is one, or asyncio's
                batch = await messages.fetch(BATCH, timeout=1)
            for message in batch:
                click = json.loads(message.data)
                place = message.metadata.sequence.stream  # with Kafka: topic, partition and offset
                await client.learn(MODEL, click["features"], click["label"], id=f"{STREAM}-{place}")
                learned += 1
                if learned == dies_after:
                    os.kill(os.getpid(), signal.SIGKILL)
            for message in batch:
                await message.ack()
            state = await messages.consumer_info()
            if not state.num_pending and not state.num_ack_pending:
                break


async def fill(log: JetStreamContext) -> None:
    """Make the log anew, with clicks in it."""
    with suppress(NotFoundError):
        await log.delete_stream(STREAM)
    await log.add_stream(name=STREAM, subjects=[SUBJECT])
    dice = random.Random(7)
    for _ in range(MESSAGES):
        features = {"seen_before": dice.random(), "price": dice.random(), "hour": dice.random()}
        click = {"features": features, "label": features["seen_before"] > features["price"]}
        await log.publish(SUBJECT, json.dumps(click).encode())


async def show(url: str, nats_url: str, log: JetStreamContext) -> None:
    """Fill the log, run one consumer after the other, and tell what came of it."""
    await fill(log)
    async with AsyncClient(url) as client:
        with suppress(Refused):
            await client.delete_model(MODEL)
        await client.create_model(MODEL, labels=[False, True], features="named")
        for number, dies_after in enumerate(LIVES, 1):
            command = [sys.executable, __file__, "--url", url, "--nats", nats_url, "--consume"]
            more = [] if dies_after is None else ["--dies-after", str(dies_after)]
            consumer = await asyncio.create_subprocess_exec(*command, *more)
            status = await consumer.wait()
            if status not in (0, -signal.SIGKILL):
                sys.exit(f"consumer {number} failed with status {status}")
            end = "was killed" if status == -signal.SIGKILL else "ended"
            rounds = (await client.stats(MODEL)).rounds.revealed
            print(f"consumer {number} {end}, {rounds} rounds are learned")
    deliveries = (await log.consumer_info(STREAM, CONSUMER)).delivered
    print(f"{MESSAGES} messages, delivered {deliveries.consumer_seq} times, learned {rounds} times")


async def main() -> None:
    parser = argparse.ArgumentParser(description="A consumer that is killed, and learns each message once.")
    parser.add_argument("--url", default=DEFAULT_URL)
    parser.add_argument("--nats", default="nats://127.0.0.1:4222")
    parser.add_argument("--consume", action="store_true", help="be one of the consumers")
    parser.add_argument("--dies-after", type=int, help="how many messages; a consumer lives on without it")
    options = parser.parse_args()
    connection = await nats.connect(options.nats)
    log = connection.jetstream(timeout=LOG_SECONDS)
    try:
        if options.consume:
            await consume(options.url, log, options.dies_after)
        else:
            await show(options.url, options.nats, log)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
