"""What the service does about its memory: one heap for all its threads, and no library that it does not need."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.service_process import Service

pytestmark = pytest.mark.slow

HEAP_BYTES = 67_108_864
"""Where glibc gives a thread a heap of its own, it reserves so much at a multiple of it: memory in use, and behind it
the rest, which cannot be accessed. The kernel puts other large blocks at such addresses, too."""

WITHOUT_FILES = """
import resource
from service.runtime.memory import FreeMemory
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
FreeMemory().look()
print("looked")
"""

WITH_HEAPS = """
import ctypes, threading
library = ctypes.CDLL(None)
thread = threading.Thread(target=library.malloc, args=(1_000,))
thread.start()
thread.join()
print(open("/proc/self/maps").read())
"""


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[Service]:
    """One with an interpreter of its own, and nothing in it but what it has loaded itself."""
    service = Service(tmp_path / "data").start(cold=True)
    yield service
    service.close()


def test_a_process_that_can_open_no_file_goes_on() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_FILES], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("looked\n", ""), (
        "on the loop of the server, an exception would end it"
    )


def test_threads_share_one_heap(cold: Service) -> None:
    """Each of their own would keep what it once needed, at times 80 MB."""
    _ask_for_much(cold)
    assert _heaps_of_threads(_maps(cold)) == []


def test_heaps_of_threads_are_found_where_there_are_some() -> None:
    ended = subprocess.run([sys.executable, "-c", WITH_HEAPS], capture_output=True, text=True, check=True)
    assert _heaps_of_threads(ended.stdout)


def test_pandas_is_not_loaded_though_it_is_installed(cold: Service) -> None:
    """pyarrow would, to see whether it is given a series: half a second, and 54 MB for good."""
    _ask_for_much(cold)
    assert "/pyarrow/" in _maps(cold)
    assert "/pandas/" not in _maps(cold)


def _maps(service: Service) -> str:
    return Path(f"/proc/{service.process.pid}/maps").read_text()


def _heaps_of_threads(maps: str) -> list[str]:
    regions = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) 00000000 00:00 0 *$", maps, re.MULTILINE)
    return [
        begin
        for (begin, middle, used), (rest, end, unused) in pairwise(regions)
        if (used, unused) == ("rw-p", "---p")
        and middle == rest
        and int(begin, 16) % HEAP_BYTES == 0
        and int(end, 16) - int(begin, 16) == HEAP_BYTES
    ]


def _ask_for_much(service: Service) -> None:
    """Several at once, so that several threads work."""
    for _ in range(20):
        service.learn("m", [1.0] * 1_000, 1)
    paths = [f"/models/m/{what}" for what in ("history?format=arrow", "history?format=parquet", "export")] * 8
    with ThreadPoolExecutor(3) as pool:
        statuses = set(pool.map(lambda path: service.client.get(path).status_code, paths))
    assert statuses == {200}
