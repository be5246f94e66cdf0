"""How many rounds a second, and how long each takes: a real service, a real disk, clients that do nothing else.

    python bench/rounds.py

Clients and service share the machine, so the figures are what both together can do. Each client has a connection of
its own and waits for every answer. A reveal is durable before it is answered, so reveals are as fast as the disk
that holds the temporary directory.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

FEATURES = 64
SECONDS = 5.0
CLIENTS = (1, 8, 32)

Post = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


async def predict(post: Post, model: str, features: list[float]) -> None:
    await post("/predict", {"model": model, "features": features})


async def predict_and_reveal(post: Post, model: str, features: list[float]) -> None:
    served = await post("/predict", {"model": model, "features": features})
    await post(
        "/feedback", {"prediction_id": served["prediction_id"], "label": 1 if sum(features) > 0 else -1}
    )


async def learn(post: Post, model: str, features: list[float]) -> None:
    await post("/learn", {"model": model, "features": features, "label": 1 if sum(features) > 0 else -1})


async def connect(port: int) -> Post:
    """HTTP as plain as it gets: a client library would be most of what is measured."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(body).encode()
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        answer = await reader.readexactly(int(length[1]))
        assert head.startswith(b"HTTP/1.1 200"), answer
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    return post


async def measure(
    port: int, act: Callable[[Post, str, list[float]], Awaitable[None]], clients: int
) -> list[float]:
    """Seconds of each act, by so many clients at once, each with a model of its own."""
    end = time.perf_counter() + SECONDS
    took: list[float] = []

    async def client(number: int) -> None:
        post = await connect(port)
        chance = random.Random(number)
        examples = [[chance.gauss(0, 1) for _ in range(FEATURES)] for _ in range(100)]
        while (started := time.perf_counter()) < end:
            await act(post, f"{act.__name__}-{number}", examples[len(took) % 100])
            took.append(time.perf_counter() - started)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return sorted(took)


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "service", "serve", "--port", "0", "--data", data]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert service.stderr is not None
            port = next(
                int(found[1]) for line in service.stderr if (found := re.search(r"running on .*:(\d+)", line))
            )
            print(f"{FEATURES} features, {SECONDS:g} s each")
            print(f"{'what':<20}{'clients':>8}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}")
            for act in (predict, predict_and_reveal, learn):
                for clients in CLIENTS:
                    took = asyncio.run(measure(port, act, clients))
                    p50, p99 = (1000 * took[int(len(took) * share)] for share in (0.5, 0.99))
                    rate = len(took) / SECONDS
                    print(f"{act.__name__:<20}{clients:>8}{rate:>10,.0f}{p50:>9.2f}{p99:>9.2f}", flush=True)
        finally:
            service.terminate()
            service.communicate()


if __name__ == "__main__":
    main()
