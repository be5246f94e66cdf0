"""A repair that is killed at any moment leaves the old journal or the new one."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from service.journal.sqlite.acknowledged import has_log
from service.journal.sqlite.directory import open_directory
from tests.commands.repaired import JOURNAL, PAGE_BYTES, content_of, fill
from tests.commands.running import novikoff
from tests.support.service_process import Service

KILL_AT = """
import json, os, signal, sys, traceback
from service.commands.doctor.repairing import swap
from pathlib import Path

step = 0
def count(event, args):
    global step
    if event in ("os.rename", "os.remove", "shutil.copyfile", "os.link", "open", "os.truncate", "os.chmod"):
        step += 1
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

def swap_until_killed(new, path):
    sys.addaudithook(count)
    swap(new, path)

for line in sys.stdin:
    last, new, path = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            swap_until_killed(Path(new), Path(path))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Reads steps with their files, and swaps those in a process that is killed at that step; tells how each has ended."""


def content(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT seq, body FROM event ORDER BY seq").fetchall()


def test_a_repair_that_is_killed_at_any_step_leaves_the_old_journal_or_the_new_one(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    service = start()
    for i in range(20):
        service.learn("m", [float(i), 1.0], 1)
    os.kill(service.writer_pid, signal.SIGKILL)
    service.kill()
    before = service.data
    assert has_log(before / "journal.sqlite")
    shutil.copytree(before, tmp_path / "look")
    old = content(tmp_path / "look" / "journal.sqlite")
    new_file = tmp_path / "new"
    with closing(sqlite3.connect(tmp_path / "look" / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM event WHERE seq = 3")
        connection.commit()
        with closing(sqlite3.connect(new_file)) as copy:
            connection.backup(copy)
    new = content(new_file)
    assert old != new
    seen = []
    for step, data in killed_at_each_step(before, new_file, tmp_path):
        open_directory(data / JOURNAL, "power")
        found = content(data / JOURNAL)
        assert found in (old, new), f"after step {step}"
        seen.append(found == new)
    assert seen == sorted(seen) and not seen[0] and seen[-1]


def test_a_repair_that_was_cut_off_is_told_and_ended_by_a_start(start: Callable[..., Service]) -> None:
    service = start()
    fill(service)
    assert service.stop() == 0
    data = service.data
    truth = content_of(data)
    shutil.copy(data / JOURNAL, data / f"{JOURNAL}.repaired")
    (data / JOURNAL).write_bytes(b"\xff" * PAGE_BYTES)
    before = {file.name: file.read_bytes() for file in data.iterdir() if file.name != "lock"}
    ended = novikoff("doctor", "--data", data)
    assert (
        ended.status == 1
        and "a repair was interrupted" in ended.out
        and "a start of the service" in ended.out
    )
    assert {file.name: file.read_bytes() for file in data.iterdir() if file.name != "lock"} == before
    service.start()
    assert service.stop() == 0
    assert "was interrupted; it is completed now" in "".join(service.log)
    assert not (data / f"{JOURNAL}.repaired").exists() and content_of(data) == truth
    assert novikoff("doctor", "--data", data).status == 0


def killed_at_each_step(before: Path, new: Path, where: Path) -> Iterator[tuple[int, Path]]:
    """Copies of a directory in which the swap for a new file was killed, each a step later; the last was not."""
    killer = subprocess.Popen(
        [sys.executable, "-c", KILL_AT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killer.stdin is not None and killer.stdout is not None
    status = -signal.SIGKILL
    step = 0
    while status == -signal.SIGKILL:
        step += 1
        data = Path(shutil.copytree(before, where / f"step-{step}"))
        shutil.copy(new, data / f"{JOURNAL}.new")
        killer.stdin.write(json.dumps([step, str(data / f"{JOURNAL}.new"), str(data / JOURNAL)]) + "\n")
        killer.stdin.flush()
        status = int(killer.stdout.readline())
        yield step, data
    killer.communicate()
    assert status == 0 and step > 8


def test_what_a_killed_repair_has_left_does_not_disturb_the_next(start: Callable[..., Service]) -> None:
    service = start()
    service.learn("m", [1.0], 1)
    assert service.stop() == 0
    (service.data / "journal.sqlite.new").write_bytes(b"half")
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        connection.execute("UPDATE summarised SET through = 1000000")
        connection.commit()
    assert novikoff("doctor", "--data", service.data, "--repair").status == 0
    assert novikoff("doctor", "--data", service.data).status == 0
