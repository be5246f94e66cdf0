"""What others on the machine can do: read no file of the journal, and slip no code into the service's processes."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from service.engine.transfer.importing import READ_HERE_BYTES_MAX
from tests.support.forkserver import environment
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

Start = Callable[..., Service]

SPY = "import pathlib; pathlib.Path(__file__).with_suffix('.imported').touch()\nraise ImportError('not this one')\n"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_journal_is_for_its_owner_only(start: Start) -> None:
    before = os.umask(0o022)
    try:
        service = start()
        service.learn("m", [1.0], 1)
        data = service.data
        assert mode(data) == 0o700
        names = {path.name: oct(mode(path)) for path in data.iterdir()}
        assert {"journal.sqlite", "journal.sqlite-wal", "lock", "identity"} <= names.keys()
        assert set(names.values()) == {"0o600"}, names
    finally:
        os.umask(before)


def test_files_of_earlier_versions_become_private(start: Start) -> None:
    service = start()
    service.learn("m", [1.0], 1)
    service.stop()
    for path in service.data.iterdir():
        path.chmod(0o644)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == 1
    assert {oct(mode(path)) for path in service.data.iterdir()} == {"0o600"}


def test_a_file_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for module in ("msgspec", "numpy", "sqlite3", "struct", "service", "resource"):
        (here / f"{module}.py").write_text(SPY)
    command = [
        sys.executable,
        "-P",
        "-m",
        "service",
        "serve",
        "--data",
        str(tmp_path / "data"),
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, env=environment(), cwd=here, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = next(line.split("running on ")[1].split()[0] for line in process.stderr if "running on" in line)
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            examples = [{"features": [1.0], "label": 1}, {"features": [-1.0], "label": -1}]
            assert client.post("/models", json={"model": "m"}).status_code == 201
            job = client.post("/models/m/fit", json={"examples": examples}).json()

            def is_done() -> bool:
                return client.get(f"/jobs/{job['id']}").json()["state"] == "done"

            eventually(is_done, otherwise="the fit does not end")
            large = client.post("/models", json={"model": "large", "features": {"dimension": 20_000}})
            assert large.status_code == 201
            client.post("/learn", json={"model": "large", "features": [1.5] * 20_000, "label": -1})
            export = client.get("/models/large/export").content
            assert len(export) > READ_HERE_BYTES_MAX
            as_json = {"content-type": "application/json"}
            assert client.put("/models/copy", content=export, headers=as_json).status_code == 201
    finally:
        process.terminate()
        process.communicate()
    assert not list(here.glob("*.imported"))
