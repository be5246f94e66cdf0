"""A disk that is really full, and one that may not be written: a small file system in memory."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.running import novikoff
from tests.support.missing_programs import missing
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

DISK_MEGABYTES = 24


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    where = tmp_path / "disk"
    where.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(where)]
    if subprocess.run(["mount", *options], capture_output=True).returncode:
        missing("file systems can be mounted by root only")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


@pytest.fixture
def start_there(disk: Path, start: Callable[..., Service]) -> Callable[..., Service]:
    """Starts services whose data is on that disk; they have ended before it is gone."""
    return lambda **settings: start(disk / "data", **settings)


def fill(disk: Path) -> Path:
    """Take every byte that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return ballast


def learn(service: Service, number: int) -> int:
    body = {"model": "m", "features": [1.0] * 200, "label": 1 if number % 2 else -1, "id": f"r{number}"}
    answer = service.client.post("/learn", json=body)
    if answer.status_code != 200:
        assert problem_of(answer) == (503, "journal-unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code


def test_a_disk_that_fills_up_loses_nothing_and_a_retry_counts_once(
    disk: Path, start_there: Callable[..., Service]
) -> None:
    service = start_there(snapshot_every_events=50)
    number = 0
    while number < 100:
        assert learn(service, number) == 200
        number += 1
    ballast = fill(disk)
    while learn(service, number) == 200:  # what SQLite had set aside already
        number += 1
        assert number < 20_000, "the disk does not fill"
    acknowledged = number
    served = service.stats("m")["rounds"]["revealed"]
    assert served == acknowledged
    for path in ("/stats", "/stats?sort=rounds"):  # reading needs no room
        page = service.get(path)
        assert page["totals"]["rounds"]["revealed"] == acknowledged
        assert [line["rounds"]["revealed"] for line in page["models"]] == [acknowledged]
    assert len(service.get("/models")["models"]) == 1
    service.kill()
    refused = restart_or_refusal(service)
    ballast.unlink()
    if refused:
        service.start()
    assert service.stats("m")["rounds"]["revealed"] == acknowledged
    assert learn(service, number) == 200, "what was refused is learned once there is room"
    assert learn(service, number) == 200
    assert service.stats("m")["rounds"]["revealed"] == acknowledged + 1
    service.assert_replay_equals_live("m")
    assert service.stop() == 0
    assert novikoff("doctor", "--data", service.data).status == 0


def restart_or_refusal(service: Service) -> bool:
    """Start on a full disk: it runs, or it ends with a line that names the directory; whether it was refused."""
    try:
        service.start()
    except AssertionError:
        assert service.wait_for_end() == 2, "".join(service.log)
        assert str(service.data) in service.log[-1] and "Traceback" not in "".join(service.log)
        return True
    assert service.stats("m")["rounds"]["revealed"] > 0, "reading needs no room"
    return False


def test_a_directory_that_may_only_be_read_is_named(disk: Path, start_there: Callable[..., Service]) -> None:
    service = start_there()
    service.learn("m", [1.0], 1)
    service.stop()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    refused = subprocess.run(
        [sys.executable, "-m", "service", "serve", "--data", str(disk / "data"), "--port", "0"],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, env={**os.environ},
    )  # fmt: skip
    assert refused.returncode == 2
    assert f"{disk / 'data' / 'lock'} cannot be written: Read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == 1
