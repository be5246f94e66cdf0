"""Writes that fail with an error of the file system: told, survived, and nothing acknowledged is lost."""

import resource
from collections.abc import Callable

import pytest

from tests.running import Service, problem_of


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
