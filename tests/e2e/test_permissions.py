"""Files that the service may read and not write, as after a restore by somebody else."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.forkserver import Nursery
from tests.support.service_process import Service

OBEYING = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]
"""For root: be stopped by the permissions of files, as everybody else is."""

_nursery = Nursery(*([] if os.geteuid() else OBEYING))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return _nursery.run(*map(str, arguments))


@pytest.fixture
def used(start: Callable[..., Service]) -> Path:
    service = start()
    service.learn("m", [1.0], 1)
    assert service.stop() == 0
    return service.data


@pytest.mark.parametrize("mode", [0o444, 0o000])
@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "lock"])
def test_a_start_is_refused_if_a_file_may_not_be_written(used: Path, name: str, mode: int) -> None:
    with closing(sqlite3.connect(used / "journal.sqlite")) as kept_open:
        kept_open.execute("BEGIN")
        kept_open.execute("SELECT count(*) FROM event").fetchone()  # so the log and its index are there
        (used / name).chmod(mode)
        ended = run("serve", "--data", used, "--port", "0")
    assert ended.returncode == 2, ended
    assert ended.stderr.startswith("novikoff: ") and ended.stderr.count("\n") == 1, ended.stderr
    assert str(used / name) in ended.stderr and ("chown" in ended.stderr or name == "lock")


def test_a_directory_that_may_not_be_written_is_named(used: Path) -> None:
    (used / "lock").unlink()
    used.chmod(0o555)
    ended = run("serve", "--data", used, "--port", "0")
    used.chmod(0o755)
    assert (ended.returncode, str(used) in ended.stderr) == (2, True), ended


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_doctor_names_a_file_that_may_not_be_written(used: Path, mode: int) -> None:
    (used / "journal.sqlite").chmod(mode)
    ended = run("doctor", "--data", used)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1 and "chown" in said and "no problems found" not in said, ended


def test_an_identity_that_may_only_be_read_is_enough(used: Path) -> None:
    (used / "identity").chmod(0o444)
    assert "no problems found" in run("doctor", "--data", used).stdout
