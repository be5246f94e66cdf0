"""Hostile requests against a real service: its memory stays below 512 MB, and /livez answers within a second.

python -m tests.fuzz.resources --minutes 60 sends them for so long, then tells what was sent and the peaks.
"""

import argparse
import gzip
import io
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from tests.fuzz import model_attacks
from tests.fuzz.sender import Sender
from tests.fuzz.watcher import Watcher
from tests.support.process_usage import peak_bytes
from tests.support.service_process import Service

MEMORY_BYTES_MAX = 512_000_000
LIVEZ_SECONDS_MAX = 1.0
WORKERS = 8

SETTINGS: dict[str, object] = {
    "models_loaded_bytes_max": 50_000_000,
    "pending_bytes_max": 50_000_000,
    "copies_bytes_max": 25_000_000,
    "connections_bytes_max": 50_000_000,
    "outcomes_bytes_max": 5_000_000,
    "stream_answers_bytes_max": 50_000_000,
    "weights_max": 500_000,
    "upload_bytes_max": 8_000_000,
    "fit_memory_bytes_max": 500_000_000,
    "connections_max": 200,
    "streams_max": 8,
    "request_timeout_seconds": 5,
    "loop_pause_seconds_max": 0.25,
}
"""Of a service for a small machine: 190 MB of budgets, 110 MB of the program itself, and the rest for a while."""

NDJSON = {"content-type": "application/x-ndjson"}
GZIP = {"content-encoding": "gzip"}
JSON = {"content-type": "application/json"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


class Attacker(Sender):
    """Sends one thing after the other."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self.sent: Counter[str] = Counter()
        self.doing = ""

    def attack(self) -> None:
        kind = self.random.choice(KINDS)
        self.doing = kind.__name__.strip("_")
        self.sent[self.doing] += 1
        with suppress(httpx.HTTPError, OSError):
            kind(self)

    def _name(self) -> str:
        return f"m{self.random.randrange(20_000)}"

    # What is sent

    def _bomb(self) -> None:
        line = self.random.choice(
            (b"\n", b"1\n", b"{}\n", b'{"features":[1]}\n', b'{"model":"b","features":[1,2]}\n',
             b'{"model":"b","features":[1,2],"label":1}\n', b"[" * 500 + b"\n", b" " * 5_000 + b"\n")
        )  # fmt: skip
        body = gzip.compress(line * (self.random.choice((300_000, 3_000_000)) // len(line)))
        self.post("/stream", body, NDJSON | GZIP)

    def _bomb_of_a_body(self) -> None:
        self.post("/predict", gzip.compress(b"[" + b"0," * 2_000_000), JSON | GZIP)

    def _deep(self) -> None:
        depth = self.random.choice((100, 10_000, 200_000))
        body = b'{"model":"d","features":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        self.post(self.random.choice(("/predict", "/learn", "/models", "/stream")), body, JSON)

    def _slow_body(self) -> None:
        self.hold(
            b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 1000000\r\n\r\n" + b" " * self.random.randrange(900_000)
        )

    def _half_open(self) -> None:
        self.hold(b"GET /livez HTTP/1.1\r\nhost: local"[: self.random.randrange(1, 30)])

    def _pipeline(self) -> None:
        self.hold(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n" * 20_000, timeout=2)

    def _feed(self) -> None:
        self.hold(b"GET /feed HTTP/1.1\r\nhost: localhost\r\n\r\n")

    def _small_models(self) -> None:
        lines = (json.dumps({"model": self._name(), "features": [1.0], "label": 1}) for _ in range(500))
        self.post("/stream", "\n".join(lines).encode(), NDJSON)

    def _large_predictions(self) -> None:
        line = json.dumps({"model": f"large-{self.random.randrange(50)}", "features": [1.5] * 5_000})
        self.post("/stream?answers=summary", f"{line}\n".encode() * 60, NDJSON)

    def _large_names(self) -> None:
        names = {f"{at}" + "n" * self.random.randrange(2_000): 1.0 for at in range(100)}
        body = json.dumps({"model": f"names-{self.random.randrange(50)}", "features": names, "label": 1})
        self.post("/learn", body.encode(), JSON)

    def _columns(self) -> None:
        rows, width = self.random.choice(((4_000_000, 1), (200_000, 64), (2, 3_000), (1_000, 16)))
        if width > 64:
            batch = pa.record_batch({f"c{at}": [1.0] * rows for at in range(width)} | {"label": [1] * rows})
        else:
            values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * width)), width)
            batch = pa.record_batch({"features": values, "label": pa.array(np.ones(rows, np.int64))})
        body = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=self.random.choice(("zstd", "lz4")))
        with pa.ipc.new_stream(body, batch.schema, options=options) as stream:
            stream.write(batch)
        self.post(f"/stream?model=columns-{width}", body.getvalue(), ARROW)

    def _short_fields(self) -> None:
        self.hold(
            b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"ab:\r\n" * self.random.choice((150, 64_500))
        )

    def _trailer(self) -> None:
        field = self.random.choice(
            (b"connection: close\r\n", b"x-forwarded-for: 192.0.2.7\r\n", b"a:\r\n" * 60_000)
        )
        head = b"GET /stats HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        self.hold((head + b"0\r\n" + field + b"\r\n") * 3)

    def _empty_members(self) -> None:
        path, kind = self.random.choice((("/learn", JSON), ("/stream?model=b", NDJSON)))
        self.post(path, gzip.compress(b"", mtime=0) * self.random.choice((900, 50_000, 350_000)), kind | GZIP)

    def _many_columns(self) -> None:
        count = self.random.choice((70_000, 300_000))
        schema = pa.schema(
            [pa.field("label", pa.int8()), *(pa.field(str(at), pa.int8()) for at in range(count))]
        )
        self.post("/stream?model=columns", schema.serialize().to_pybytes(), ARROW)

    def _names_that_come_twice(self) -> None:
        body = b'{"model": "t", "learner": {' + b'"eta0": 1,' * 90_000 + b'"eta0": 1}}'
        self.post(self.random.choice(("/models", "/learn")), body, JSON)

    def _upload(self) -> None:
        body = b'{"examples": [' + b"[]," * 2_000_000 + b"[]]}"
        self.post(f"/models/{self._name()}/fit", body, JSON)

    def _reading(self) -> None:
        self.get(
            self.random.choice(
                ("/stats", "/models", "/metrics", "/stats?sort=rounds", "/docs", "/openapi.json")
            )
        )


KINDS: list[Callable[[Attacker], None]] = [
    Attacker._bomb, Attacker._bomb_of_a_body, Attacker._deep, Attacker._slow_body, Attacker._half_open,
    Attacker._pipeline, Attacker._feed, Attacker._small_models, Attacker._large_predictions,
    Attacker._large_names, Attacker._columns, Attacker._short_fields, Attacker._trailer, Attacker._empty_members,
    Attacker._many_columns, Attacker._names_that_come_twice, Attacker._upload, Attacker._reading, *model_attacks.KINDS,
]  # fmt: skip


class Siege:
    """Attackers at a service, each in a thread, until `stop`; `check` tells what has gone wrong."""

    def __init__(self, service: Service, seed: int) -> None:
        self.service = service
        self.watcher = Watcher(service.url)
        self._attackers = [Attacker(service.url, seed + at) for at in range(WORKERS)]
        self._peaks: list[tuple[int, list[str]]] = [(0, [])]
        """How high the memory had come, and what was done when it was seen."""

    def run(self, until: Callable[[int], bool]) -> None:
        """`until`: whether so many attacks of an attacker are enough."""

        def attack(attacker: Attacker) -> None:
            while not until(attacker.sent.total()) and self.service.process.poll() is None:
                attacker.attack()
                self._look_at_memory()

        threads = [threading.Thread(target=attack, args=(attacker,)) for attacker in self._attackers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.watcher.stop()
        for attacker in self._attackers:
            attacker.close()

    def _look_at_memory(self) -> None:
        with suppress(OSError, AssertionError):  # it has ended
            peak = peak_bytes(self.service.process.pid)
            if peak > self._peaks[-1][0]:
                self._peaks.append((peak, [attacker.doing for attacker in self._attackers]))

    def wrong(self) -> list[str]:
        """What must not be, whatever was sent."""
        if self.service.process.poll() is not None:
            return ["the service has ended", *self.service.log[-20:]]
        peak = peak_bytes(self.service.process.pid)
        log = self.service.log
        places = [at for at, line in enumerate(log) if "unexpected error" in line or "ASGI" in line]
        unforeseen = [
            line for at in places[:5] for line in log[at : at + 40]
        ]  # with what follows, its traceback
        statuses = sum((attacker.statuses for attacker in self._attackers), Counter())
        return [
            *unforeseen,
            *([f"{statuses[500]} answers of 500"] if statuses[500] else []),
            *([f"{peak / 1e6:.0f} MB of memory"] if peak > MEMORY_BYTES_MAX else []),
        ]

    def account(self) -> str:
        sent = sum((attacker.sent for attacker in self._attackers), Counter())
        statuses = sum((attacker.statuses for attacker in self._attackers), Counter())
        peak = peak_bytes(self.service.process.pid) if self.service.process.poll() is None else 0
        lines = [f"  {count:8} {kind.replace('_', ' ')}" for kind, count in sent.most_common()]
        answers = ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items()))
        return "\n".join(
            (
                f"{sent.total()} attacks:", *lines, f"answers: {answers}",
                f"memory at its peak: {peak / 1e6:.0f} MB",
                *(f"  {at / 1e6:.0f} MB with {', '.join(sorted(doing))}" for at, doing in self._peaks[-3:]),
                f"/livez: asked {self.watcher.asked} times, at most {self.watcher.longest_seconds:.3f} s"
                f" (at {self.watcher.longest_at})",
            )
        )  # fmt: skip


def _longest_pauses(log: str) -> list[str]:
    """What the service has told of the times when its event loop was held, the longest first.

    >>> _longest_pauses("3Z held for 0.3 seconds seconds=0.26 others=0\\n4Z held for 4.1 seconds seconds=4.1\\n")
    ['4Z held for 4.1 seconds seconds=4.1', '3Z held for 0.3 seconds seconds=0.26 others=0']
    """
    told = re.finditer(r"^.*held for .* seconds=([\d.]+).*$", log, re.MULTILINE)
    return [line for _, line in sorted(((float(one[1]), one[0]) for one in told), reverse=True)][:10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="novikoff-siege-") as directory:
        service = Service(Path(directory) / "data", **SETTINGS).start(cold=True)
        siege = Siege(service, arguments.seed)
        os.nice(5)  # for the attackers' threads: they are to load the service, and not to take its core away
        ends = time.monotonic() + 60 * arguments.minutes
        siege.run(lambda _: time.monotonic() > ends)
        wrong = siege.wrong()
        if siege.watcher.longest_seconds > LIVEZ_SECONDS_MAX:
            wrong.append(f"/livez took {siege.watcher.longest_seconds:.2f} seconds")
        print(f"seed {arguments.seed}\n{siege.account()}")
        print("\n".join(_longest_pauses("".join(service.log))))
        service.close()
    if wrong:
        sys.exit("\n".join(["wrong:", *wrong]))


if __name__ == "__main__":
    main()
