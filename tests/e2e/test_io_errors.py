"""Writes that fail with an error of the file system: told, survived, and nothing acknowledged is lost."""

import resource
from collections.abc import Callable

import httpx
import numpy as np
import pyarrow as pa
import pytest

from tests.support.service_process import Service, problem_of


def let_files_grow_to(service: Service, size: int) -> None:
    """From here on the writing process gets EFBIG, an I/O error to SQLite, for whatever lies behind."""
    resource.prlimit(service.writer_pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("path", ["/learn", "/feedback"])
def test_an_io_error_is_told_and_what_was_acknowledged_stays(
    start: Callable[..., Service], path: str
) -> None:
    service = start()
    for i in range(20):
        service.learn("m", [1.0, float(i)], 1 if i % 3 else -1)
    waiting = service.predict("m", [1.0, 2.0], id="waiting")["prediction_id"]
    service.get("/stats")  # which waits until all of it is on disk
    body = {
        "/learn": {"model": "m", "features": [2.0, 2.0], "label": 1, "id": "whole"},
        "/feedback": {"prediction_id": waiting, "label": 1},
    }[path]

    let_files_grow_to(service, (service.data / "journal.sqlite-wal").stat().st_size)
    answer = service.client.post(path, json=body)
    assert problem_of(answer) == (503, "journal-unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert service.predict("m", [1.0, 2.0])["version"] == 20, "predictions go on, and nothing was learned"

    let_files_grow_to(service, resource.RLIM_INFINITY)
    assert service.post(path, body)["rounds"] == 21
    service.kill()
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == 21
    assert service.post(path, body)["rounds"] == 21, "the first answer again"
    service.assert_replay_equals_live("m")


def test_a_stream_that_cannot_be_kept_to_its_end_is_learned_without_a_gap(
    start: Callable[..., Service],
) -> None:
    """Two arrays are under way at a time; if the first is lost, the second must not be learned."""
    service = start()
    chance = np.random.default_rng(1958)
    rows = chance.normal(size=(20_000, 16))
    labels = np.where(rows.sum(axis=1) > 0, 1, -1)

    def send(model: str, count: int) -> httpx.Response:
        columns = {f"x{i}": rows[:count, i] for i in range(16)}
        table = pa.table({**columns, "label": labels[:count]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        body = sink.getvalue().to_pybytes()
        return service.client.post(f"/stream?model={model}", content=body, headers=headers)

    assert send("m", 1_000).status_code == 200
    service.get("/stats")
    wal = service.data / "journal.sqlite-wal"
    let_files_grow_to(service, wal.stat().st_size + 1_000_000)
    assert problem_of(send("n", 20_000)) == (503, "journal-unavailable")
    let_files_grow_to(service, resource.RLIM_INFINITY)
    learned = service.stats("n")["rounds"]["revealed"]
    assert 0 < learned < 20_000
    assert send("o", learned).json()["revealed"] == learned
    assert service.weights("n") == service.weights("o")
    service.assert_replay_equals_live("n")
