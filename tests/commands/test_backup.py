"""`novikoff backup` and `novikoff restore`: one moment of the journal, and a service that goes on from it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.commands.running import failed, novikoff, worked
from tests.golden.archives import FILES, unpack
from tests.golden.fleet import OPENED_WITH
from tests.support.forkserver import environment
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def stopped(start: Callable[..., Service]) -> Service:
    """A service with two models, some rounds and a prediction that has no label yet, which was stopped."""
    service = start(snapshot_every_events=10)
    for i in range(30):
        service.learn("m", [float(i % 7), 1.0], 1 if i % 2 else -1, id=f"round-{i}")
    service.learn("n", [1.0], 1)
    service.predict("m", [1.0, 1.0], id="pending")
    assert service.stop() == 0
    return service


def test_a_backup_made_under_load_is_one_moment_and_can_be_served(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    service = start(snapshot_every_events=50)
    service.learn("m", [1.0, 1.0], 1)
    done = threading.Event()

    def learn() -> None:
        with httpx.Client(base_url=service.url, timeout=PATIENCE_SECONDS) as client:
            while not done.is_set():
                rounds = [
                    {"model": "m", "features": [float(i % 7), 1.0], "label": 1 - i % 2 * 2} for i in range(50)
                ]
                client.post("/learn", json={"items": rounds}).raise_for_status()

    learning = threading.Thread(target=learn)
    learning.start()
    file = tmp_path / "backup.sqlite"
    try:
        eventually(lambda: service.stats("m")["rounds"]["revealed"] >= 200)
        before = service.stats("m")["rounds"]["revealed"]
        said = worked("backup", file, "--data", service.data)
    finally:
        done.set()
        learning.join()
    assert said.startswith(f"{file}: 1 model (1 replayed), ")
    assert [one.name for one in tmp_path.glob("backup*")] == ["backup.sqlite"]
    assert file.stat().st_mode & 0o077 == 0
    assert "restored to " in worked("restore", file, "--data", tmp_path / "restored")
    second = start(tmp_path / "restored")
    assert before <= second.stats("m")["rounds"]["revealed"] <= service.stats("m")["rounds"]["revealed"]
    second.assert_replay_equals_live("m")


def test_a_restored_service_knows_rounds_pending_predictions_and_whose_it_is(
    tmp_path: Path, stopped: Service, start: Callable[..., Service]
) -> None:
    worked("backup", tmp_path / "b", "--data", stopped.data)
    worked("restore", tmp_path / "b", "--data", tmp_path / "new" / "data")
    identity = (stopped.data / "identity").read_text()
    assert (tmp_path / "new" / "data" / "identity").read_text() == identity
    service = start(tmp_path / "new" / "data")
    again = {"model": "m", "features": [0.0, 1.0], "label": -1, "id": "round-0"}
    assert service.client.post("/learn", json=again).headers["idempotent-replay"] == "true"
    assert service.reveal("pending", 1)["rounds"] == 31


def test_a_directory_that_has_been_used_is_refused_and_left_as_it_is(
    tmp_path: Path, stopped: Service
) -> None:
    worked("backup", tmp_path / "b", "--data", stopped.data)
    before = {file.name: file.read_bytes() for file in stopped.data.iterdir()}
    assert "is already in use" in failed("restore", tmp_path / "b", "--data", stopped.data)
    assert {file.name: file.read_bytes() for file in stopped.data.iterdir()} == before
    (stopped.data / "journal.sqlite").unlink()  # lost: its identity still tells that there was one
    assert "is already in use" in failed("restore", tmp_path / "b", "--data", stopped.data)


@pytest.mark.parametrize("where", ["half", "end", "head"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(tmp_path: Path, stopped: Service, where: str) -> None:
    file = tmp_path / "b"
    worked("backup", file, "--data", stopped.data)
    content = bytearray(file.read_bytes())
    if where == "end":
        del content[-8192:]
    else:
        at = 0 if where == "head" else content.rindex(b"round-17")
        content[at] ^= 1
    file.write_bytes(content)
    failed("restore", file, "--data", tmp_path / "new")
    assert not [one for one in (tmp_path / "new").iterdir() if one.name != "lock"]


def test_a_damaged_journal_is_not_backed_up(tmp_path: Path, stopped: Service) -> None:
    file = stopped.data / "journal.sqlite"
    content = bytearray(file.read_bytes())
    content[content.rindex(b"round-17")] ^= 1
    file.write_bytes(content)
    assert "damaged" in failed("backup", tmp_path / "b", "--data", stopped.data)
    assert not list(tmp_path.glob("b*"))


def test_what_cannot_be_backed_up_or_restored_is_refused_in_words(tmp_path: Path, stopped: Service) -> None:
    (tmp_path / "text").write_text("no backup")
    assert "already exists" in failed("backup", tmp_path / "text", "--data", stopped.data)
    assert "there is no journal" in failed("backup", tmp_path / "b", "--data", tmp_path / "nowhere")
    assert "is not a backup" in failed("restore", tmp_path / "text", "--data", tmp_path / "new")
    assert "there is no file" in failed("restore", tmp_path / "nothing", "--data", tmp_path / "new")
    assert "such as 6h" in failed("backup", tmp_path / "b", "--data", stopped.data, "--every", "often")
    missing = tmp_path / "missing"
    for often in ([], ["--every", "1s"]):  # which fails at the start
        assert f"there is no folder {missing}: create it" in failed(
            "backup", missing / "b", "--data", stopped.data, *often
        )


@pytest.mark.parametrize("how_it_ended", ["stopped", "killed"])
def test_a_journal_of_another_version_is_not_called_damaged(
    tmp_path: Path, how_it_ended: str, start: Callable[..., Service]
) -> None:
    data = unpack(FILES / f"{how_it_ended}.tar.xz", tmp_path / "data")
    said = failed("backup", tmp_path / "b", "--data", data)
    assert "older schema version 2" in said and "Start the service once" in said and "copy the whole" in said
    assert "damaged" not in said and not list(tmp_path.glob("b*"))
    looked = novikoff("doctor", "--data", data)
    assert (
        looked.status == 1
        and "older schema version 2" in looked.out
        and "Start the service once" in looked.out
    )
    service = start(data, **OPENED_WITH)
    assert "replayed" in worked("backup", tmp_path / "b", "--data", data)
    assert service.stop() == 0
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")
    said = failed("backup", tmp_path / "c", "--data", data)
    assert "newer schema version 99" in said and "Use the newer Novikoff" in said and "damaged" not in said


def test_a_copy_of_a_stopped_journal_of_version_0_1_0_is_restored(tmp_path: Path) -> None:
    data = unpack(FILES / "stopped.tar.xz", tmp_path / "data")
    before = (data / "journal.sqlite").read_bytes()
    assert "restored to" in worked("restore", data / "journal.sqlite", "--data", tmp_path / "new")
    assert (data / "journal.sqlite").read_bytes() == before
    assert "no problems" in worked("doctor", "--data", tmp_path / "new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_what_root_restores_belongs_to_the_owner_of_the_directory(tmp_path: Path, stopped: Service) -> None:
    worked("backup", tmp_path / "b", "--data", stopped.data)
    data = tmp_path / "owned"
    data.mkdir(0o700)
    shutil.chown(data, 12345, 12345)
    worked("restore", tmp_path / "b", "--data", data)
    assert {file.name: file.stat().st_uid for file in data.iterdir()} == dict.fromkeys(
        ("journal.sqlite", "identity", "lock"), 12345
    )


def test_a_schedule_keeps_the_newest_and_ends_when_it_is_told_to(tmp_path: Path, stopped: Service) -> None:
    (tmp_path / "b-of-mine.sqlite").write_text("not made by the schedule")
    command = [sys.executable, "-m", "service", "backup", tmp_path / "b.sqlite"]
    process = subprocess.Popen(
        [*map(str, command), "--every", "1s", "--keep", "2"],
        env=environment(data=stopped.data), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        made = [Path(process.stdout.readline().split(":")[0]) for _ in range(4)]
        assert len(set(made)) == 4
        eventually(lambda: not made[1].exists())
        assert (tmp_path / "b-of-mine.sqlite").exists() and made[3].exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 130
    finally:
        process.kill()
        process.communicate()
