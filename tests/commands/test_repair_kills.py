"""A repair that is killed at any moment leaves the old journal or the new one."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from service.journal.sqlite.log_file import read_log
from tests.commands.running import novikoff
from tests.running import Service

KILL_AT = """
import json, os, signal, sys, traceback
from service.commands.doctor.copying import swap
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
    assert read_log(before / "journal.sqlite") is not None
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
    killer = subprocess.Popen(
        [sys.executable, "-c", KILL_AT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killer.stdin is not None and killer.stdout is not None
    for step in range(1, 100):
        data = tmp_path / f"step-{step}"
        shutil.copytree(before, data)
        path = data / "journal.sqlite"
        shutil.copy(new_file, data / "journal.sqlite.new")
        killer.stdin.write(json.dumps([step, str(data / "journal.sqlite.new"), str(path)]) + "\n")
        killer.stdin.flush()
        status = int(killer.stdout.readline())
        found = content(path)
        assert found in (old, new), f"after step {step}: {status}"
        seen.append(found == new)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    killer.communicate()
    assert len(seen) > 8 and seen == sorted(seen) and not seen[0] and seen[-1]


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
