"""A disk that takes its time: the process that writes the journal is stopped, and later goes on."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.running import Service, problem_of

DEADLINE_SECONDS = 20
ROUND = {"model": "m", "features": [1.0], "label": -1}


@contextmanager
def stalled(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_disk_that_stalls_is_told_at_once_and_those_who_wait_get_their_answers(
    start: Callable[..., Service],
) -> None:
    service = start(queue_seconds_max=0.5)
    service.learn("m", [1.0], 1)
    with ThreadPoolExecutor(200) as pool:
        with stalled(service.writer_pid):
            waits = pool.submit(service.learn, "m", [1.0], -1)
            accepted = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while (later := pool.submit(service.client.post, "/learn", json=ROUND)) is not None:
                time.sleep(0.1)  # time for an answer that comes at once
                if later.done():
                    break
                accepted.append(later)
                assert time.monotonic() < deadline, "requests pile up before the disk"
            assert problem_of(later.result()) == (503, "overloaded")
            assert int(later.result().headers["retry-after"]) >= 1
            assert not waits.done(), "an event that may yet be written is neither refused nor answered"
            assert service.refused("/feedback", {"prediction_id": "none", "label": 1}) == (503, "overloaded")
            assert service.stats("m")["rounds"]["revealed"] == 1, "only what is on disk is counted"
        assert waits.result()["rounds"] == 2
        assert all(answer.result().status_code == 200 for answer in accepted)
    while service.client.post("/learn", json=ROUND).status_code != 200:
        assert time.monotonic() < deadline, "the service does not recover"
    assert service.stats("m")["rounds"]["revealed"] == 3 + len(accepted)
    service.assert_replay_equals_live("m")


def test_a_stop_does_not_wait_for_ever_for_a_disk_that_hangs(start: Callable[..., Service]) -> None:
    service = start(shutdown_seconds=1)
    acknowledged = service.learn("m", [1.0], 1)
    with stalled(service.writer_pid):
        service.process.terminate()
        assert service.process.wait(DEADLINE_SECONDS) == 1
    service.kill()  # it has ended; this waits for the end of its log
    assert "the disk has taken nothing" in "".join(service.log)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == acknowledged["rounds"]
