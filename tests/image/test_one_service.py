"""The image as one service, confined as the compose file confines it."""

import io
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest

from tests.image.account import Load
from tests.image.engine import Container, podman, running
from tests.support.api_keys import Holder
from tests.support.ports import free_ports
from tests.support.waiting import eventually

USER = 10001


@pytest.fixture(scope="module")
def service() -> Iterator[Container]:
    with running() as container:
        yield container.until_ready()


def test_it_is_confined_and_has_nothing_to_install_or_build_with(service: Container) -> None:
    status = dict(line.split(":\t", 1) for line in service.execute("cat", "/proc/1/status").splitlines())
    assert status["Uid"].split() == [str(USER)] * 4
    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert "Read-only file system" in service.execute("touch", "/x", check=False)
    for absent in ("pip", "pip3", "gcc", "cc", "make"):
        assert not service.execute("sh", "-c", f"command -v {absent} || true"), absent
    for module in ("pip", "ensurepip"):
        assert "No module named" in service.execute("python", "-c", f"import {module}", check=False)


def test_what_is_acknowledged_is_kept_through_kills_and_a_stop_under_load() -> None:
    with running(options=("--volume", "/data")) as container:
        container.until_ready()
        with Load(str(container.client.base_url), "m") as load:
            for _ in range(3):
                load.until_more(200)
                container.signal("KILL")
                container.wait()
                podman("start", container.name)
            load.until_more(200)
            container.signal("TERM")
            assert container.wait() == 0, container.log
            podman("start", container.name)
            load.until_more(100)
        print(load.account)
        assert container.client.get("/stats/m").json()["rounds"]["revealed"] == load.account.acknowledged
        assert "stopped" in container.log


def test_sigterm_counts_while_python_still_imports(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o666)
    pipe.chmod(0o666)
    tmp_path.chmod(0o755)
    (tmp_path / "numpy.py").write_text("open('/held/pipe').read()\n")
    held = ("--volume", f"{tmp_path}:/held", "--env", "PYTHONPATH=/held")
    with running(options=held) as container, pipe.open("w"):
        container.signal("TERM")
        assert container.wait() == 0


@pytest.mark.parametrize("arguments", [(), ("serve", "--port", "9000"), ("serve", "--port=9001")])
def test_the_health_check_knows_the_port(arguments: tuple[str, ...]) -> None:
    with running(*arguments) as container:
        eventually(
            lambda: podman("healthcheck", "run", container.name, check=False).returncode == 0,
            60,
            otherwise="never healthy",
        )
        container.signal("STOP")
        assert podman("healthcheck", "run", container.name, check=False).returncode != 0
        container.signal("CONT")


CPU = """
import resource, subprocess, sys
def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(20):
        subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 20
print(seconds(["healthy", "/readyz"]), seconds(["python", "-IS", "-c", "pass"]))
"""


def test_the_health_check_costs_little_more_than_an_interpreter(service: Container) -> None:
    check, interpreter = map(float, service.execute("python", "-c", CPU).split())
    print(
        f"a health check takes {check * 1000:.0f} ms of CPU, a bare interpreter {interpreter * 1000:.0f} ms"
    )
    assert check < 4 * interpreter


def test_the_standard_library_has_its_bytecode(service: Container) -> None:
    found = service.execute(
        "python", "-c", "import json, asyncio, json.decoder as m; print(m.__cached__, asyncio.__cached__)"
    )
    for path in found.split():
        assert service.execute("stat", "--format", "%s", path).strip() != "0"


def test_the_image_has_every_extra_that_the_documents_tell_of(service: Container) -> None:
    post = service.client.post
    lines = b'{"model": "all", "features": [1.0, 2.0], "label": 1}\n' * 3
    answer = post("/stream", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code == 200 and answer.text.count('"rounds"') == 3
    assert service.client.get("/models/all/export?format=onnx").status_code == 200
    table = pyarrow.table({"x": [1.0, 2.0], "y": [0.5, 0.1], "label": [1, -1]})
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = post("/stream?model=columns&label=label", content=sink.getvalue(), headers=arrow)
    assert answer.status_code == 200, answer.text


def test_only_names_of_this_machine_and_those_that_are_set_are_answered(service: Container) -> None:
    def status(host: str) -> int:
        return service.client.get("/stats", headers={"host": host}).status_code

    assert [status(host) for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "10.1.2.3")] == [200] * 4
    assert [status(host) for host in ("evil.example", "novikoff", "")] == [403] * 3
    with running(options=("--env", "NOVIKOFF_ALLOWED_HOSTS=novikoff")) as named:
        named.until_ready()
        assert named.client.get("/stats", headers={"host": "novikoff"}).status_code == 200


def test_without_keys_it_starts_only_if_it_is_published_to_this_machine() -> None:
    for options in (("--env", "NOVIKOFF_PUBLISHED=0.0.0.0:8000"), ("--env", "NOVIKOFF_PUBLISHED=")):
        with running(options=options) as refused:
            assert refused.wait() == 2 and "Create keys with" in refused.log
    key = Holder("a", "read")
    options = ("--env", "NOVIKOFF_PUBLISHED=0.0.0.0:8000", "--env", f"NOVIKOFF_API_KEYS={key.line}")
    with running(options=options) as keyed:
        keyed.until_ready()
        assert keyed.client.get("/stats").status_code == 401
        assert keyed.client.get("/stats", headers=key.headers).status_code == 200


@pytest.mark.parametrize("mounted", ["directory", "file"])
def test_a_file_of_keys_that_is_replaced_by_renaming(tmp_path: Path, mounted: str) -> None:
    old, new = Holder("old", "read"), Holder("new", "read")
    tmp_path.chmod(0o755)
    keys = tmp_path / "keys"
    keys.write_text(old.line)
    keys.chmod(0o644)
    mount = f"{tmp_path}:/keys:ro" if mounted == "directory" else f"{keys}:/keys/keys:ro"
    with running(options=("--volume", mount, "--env", "NOVIKOFF_API_KEYS_FILE=/keys/keys")) as container:
        container.until_ready()
        assert container.client.get("/stats", headers=old.headers).status_code == 200
        other = tmp_path / "new"
        other.write_text(new.line)
        other.chmod(0o644)
        other.replace(keys)
        if mounted == "directory":
            eventually(lambda: container.client.get("/stats", headers=new.headers).status_code == 200)
            assert container.client.get("/stats", headers=old.headers).status_code == 401
        else:
            eventually(lambda: "mount its directory" in container.log)


def test_a_journal_that_was_restored_as_root_is_refused_and_named_by_doctor(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, USER, USER)
    tmp_path.chmod(0o755)
    mount = ("--volume", f"{data}:/data")
    with running(options=mount) as container:
        container.until_ready().client.post("/learn", json={"model": "m", "features": [1.0], "label": 1})
        container.signal("TERM")
        assert container.wait() == 0
    with closing(sqlite3.connect(data / "journal.sqlite")) as kept:
        kept.execute("VACUUM")
    os.chown(data / "journal.sqlite", 0, 0)
    with running(options=mount) as refused:
        assert refused.wait() == 2 and f"chown {USER} /data/journal.sqlite" in refused.log, refused.log
    with running("doctor", "--data", "/data", options=mount) as doctor:
        assert doctor.wait() == 1 and f"user {USER} has no write permission" in doctor.log, doctor.log
    os.chown(data / "journal.sqlite", USER, USER)
    with running(options=mount) as mended:
        assert mended.until_ready().client.get("/stats/m").json()["rounds"]["revealed"] == 1


def test_another_port_of_this_machine_needs_no_keys() -> None:
    (port,) = free_ports(1)
    with running(options=("--env", f"NOVIKOFF_PUBLISHED=127.0.0.1:{port}")) as container:
        assert 'access="this machine"' in container.until_ready().log
