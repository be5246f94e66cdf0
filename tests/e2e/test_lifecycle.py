"""Start, stop, and what must not stop it."""

import asyncio
import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from msgspec import structs

from service.journal.codec import decode_event, encode
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.schema import SCHEMA_VERSION, open_reader
from service.journal.sqlite.sealing import SEAL_MODEL, add_functions
from tests.support.forkserver import run
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually


def test_sigterm_finishes_what_is_under_way_and_exits_with_0(start: Callable[..., Service]) -> None:
    service = start()
    service.predict("m", [1.0])

    async def stop_under_load() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            body = {"model": "m", "features": [1.0], "label": 1}
            requests = [asyncio.create_task(client.post("/learn", json=body)) for _ in range(50)]
            await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
            service.process.terminate()
            answers = await asyncio.gather(*requests, return_exceptions=True)
            return [answer for answer in answers if isinstance(answer, httpx.Response)]

    answers = asyncio.run(stop_under_load())
    assert service.stop() == 0, "".join(service.log)
    acknowledged = sum(answer.status_code == 200 for answer in answers)
    assert acknowledged >= 1
    connection = sqlite3.connect(service.data / "journal.sqlite")
    assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (1,)
    connection.close()
    service.start()
    assert service.stats("m")["rounds"]["revealed"] >= acknowledged
    service.assert_replay_equals_live("m")


def test_what_kubernetes_sets_for_a_service_of_our_name_is_told_apart(tmp_path: Path) -> None:
    links = {"port": "tcp://10.0.0.7:80", "service_host": "10.0.0.7", "port_80_tcp_proto": "tcp"}
    refused = run("serve", "--data", str(tmp_path), **links)
    assert refused.returncode == 2 and "enableServiceLinks: false" in refused.stderr, refused


def test_a_second_process_cannot_use_the_same_directory(start: Callable[..., Service]) -> None:
    service = start()
    second = run("serve", "--data", str(service.data), "--port", "0")
    assert second.returncode == 2
    assert f"in use by process {service.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    service.kill()
    service.start()


def test_a_newer_schema_is_refused(tmp_path: Path, start: Callable[..., Service]) -> None:
    start().stop()
    connection = sqlite3.connect(tmp_path / "data" / "journal.sqlite")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    refused = run("serve", "--data", str(tmp_path / "data"), "--port", "0")
    assert refused.returncode == 2
    assert f"schema version {SCHEMA_VERSION + 1}" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("content", [b"this is not a database, whatever its name says" * 100, None])
def test_a_file_of_somebody_else_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "journal.sqlite"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE theirs (x)")
        connection.close()
    else:
        path.write_bytes(content)
    refused = run("serve", "--data", str(tmp_path), "--port", "0")
    assert refused.returncode == 2
    assert "journal.sqlite" in refused.stderr and "Traceback" not in refused.stderr


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = run("serve", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr and "Traceback" not in refused.stderr


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    refused = run("serve", "--data", str(tmp_path), ports=1)
    assert refused.returncode == 2
    assert "NOVIKOFF_PORTS" in refused.stderr and "Traceback" not in refused.stderr


def test_a_setting_out_of_range_is_named(tmp_path: Path) -> None:
    refused = run("serve", "--data", str(tmp_path), pending_max=0)
    assert refused.returncode == 2
    assert "NOVIKOFF_PENDING_MAX" in refused.stderr and "Traceback" not in refused.stderr


def test_a_full_disk_answers_503_changes_nothing_and_passes(start: Callable[..., Service]) -> None:
    service = start()
    for i in range(10):
        service.learn("m", [1.0, float(i)], -1)
    waiting = service.predict("m", [1.0, 1.0])["prediction_id"]
    before = service.stats("m"), service.get("/models/m/weights")
    # No file may grow beyond one byte: to the process that writes the database it is a full disk.
    pid = service.writer_pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    for path, body in (
        ("/feedback", {"prediction_id": waiting, "label": -1}),
        ("/learn", {"model": "m", "features": [1.0, 2.0], "label": -1}),
        ("/models", {"model": "other"}),
    ):
        answer = service.client.post(path, json=body)
        assert problem_of(answer) == (503, "journal-unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    assert (service.stats("m"), service.get("/models/m/weights")) == before
    while_full = service.predict("m", [2.0, 2.0])["prediction_id"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert service.reveal(waiting, -1)["rounds"] == 11
    assert service.client.get("/models/other").status_code == 404
    service.assert_replay_equals_live("m")
    service.stop()
    service.start()
    assert service.reveal(while_full, -1)["rounds"] == 12, (
        "a prediction served while the disk was full was kept"
    )
    service.assert_replay_equals_live("m")


def test_a_clock_that_goes_back_does_not_void_predictions(start: Callable[..., Service]) -> None:
    service = start()
    service.learn("m", [1.0], 1)
    service.stop()
    connection = sqlite3.connect(service.data / "journal.sqlite")
    seq, body = connection.execute("SELECT seq, body FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    future = (time.time_ns() // 1000) + 3_600_000_000
    event = structs.replace(decode_event(body[:-SEAL_BYTES]), at=future)
    add_functions(connection)
    connection.execute(
        "UPDATE event SET body = seal_event(?, seq, model, prediction_id, previous) WHERE seq = ?",
        (encode(event), seq),
    )
    connection.execute("UPDATE model SET voided_through = ?", (future,))
    connection.execute(SEAL_MODEL)
    connection.commit()
    connection.close()
    service.start()
    prediction_id = service.predict("m", [1.0])["prediction_id"]
    service.restart()
    service.reveal(prediction_id, 1)


def test_old_events_are_trimmed_but_nothing_is_forgotten(start: Callable[..., Service]) -> None:
    service = start(snapshot_every_events=10, events_kept_max=30)
    for i in range(200):
        service.learn("m", [1.0, float(i % 7)], 1 if i % 2 else -1)
    before = service.stats("m"), service.get("/models/m/weights")

    def counts() -> list[int]:
        with closing(open_reader(service.data / "journal.sqlite")) as connection:
            return [
                int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
                for table in ("event", "snapshot", "outcome")
            ]

    def are_few(kept: int, snapshots: int, pages: int) -> bool:
        return 30 <= kept <= 50 and 2 <= snapshots <= 5 and pages <= 5

    eventually(lambda: are_few(*counts()), otherwise=lambda: f"{counts()}")
    service.kill()
    assert are_few(*counts())
    service.start()
    assert (service.stats("m"), service.get("/models/m/weights")) == before


def test_a_stop_leaves_one_file_that_can_be_copied(start: Callable[..., Service]) -> None:
    service = start()
    service.learn("m", [1.0], -1)
    service.stats("m")
    service.stop()
    assert sorted(path.name for path in service.data.iterdir()) == ["identity", "journal.sqlite", "lock"]


def test_long_products_keep_no_other_core_busy(tmp_path: Path) -> None:
    service = Service(tmp_path).start(cold=True)
    try:
        before = ticks_of_threads(service.process.pid)
        for at in range(40):
            service.learn("m", [1.0] * 60_000, (1, -1)[at % 2])
        after = ticks_of_threads(service.process.pid)
        used = {thread: ticks - before.get(thread, 0) for thread, ticks in after.items()}
        own = used.pop(service.process.pid)
        assert sum(used.values()) < own / 2, "threads of BLAS go on spinning, and use three times as much"
    finally:
        service.close()


def ticks_of_threads(pid: int) -> dict[int, int]:
    """How much of the processor each thread has used."""
    ticks = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        ticks[int(thread.name)] = int(fields[11]) + int(fields[12])
    return ticks
