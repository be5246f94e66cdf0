"""A disk that takes its time: the process that writes the journal is stopped, and later goes on."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import httpx

from tests.otlp import metric
from tests.raw_http import connect, read_to_end, read_until, request
from tests.running import Service, problem_of
from tests.waiting import PATIENCE_SECONDS, eventually

AT_ONCE_SECONDS = 0.5
"""Who has no answer by then waits for the disk."""
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
            earlier: list[Future[httpx.Response]] = []

            def is_answered_at_once() -> bool:
                sent = pool.submit(service.client.post, "/learn", json=ROUND)
                earlier.append(sent)
                return bool(wait([sent], timeout=AT_ONCE_SECONDS).done)

            eventually(is_answered_at_once, otherwise="requests pile up before the disk")
            later = earlier.pop()
            assert problem_of(later.result()) == (503, "overloaded")
            assert int(later.result().headers["retry-after"]) >= 1
            assert not waits.done(), "an event that may yet be written is neither refused nor answered"
            assert service.refused("/feedback", {"prediction_id": "none", "label": 1}) == (503, "overloaded")
            assert service.stats("m")["rounds"]["revealed"] == 1, "only what is on disk is counted"
        accepted = [answer.result() for answer in earlier if answer.result().status_code == 200]
        for answer in earlier:  # on a busy machine, a refusal may have taken longer than that to come
            assert answer.result() in accepted or problem_of(answer.result()) == (503, "overloaded")
        rounds = [waits.result()["rounds"], *(answer.json()["rounds"] for answer in accepted)]
        assert sorted(rounds) == list(range(2, 3 + len(accepted))), "each counts once"
    eventually(
        lambda: service.client.post("/learn", json=ROUND).status_code == 200,
        otherwise="the service does not recover",
    )
    assert service.stats("m")["rounds"]["revealed"] == 3 + len(accepted)
    service.assert_replay_equals_live("m")


def figure(service: Service, name: str) -> float:
    """Of /metrics."""
    lines = service.client.get("/metrics").text.splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"{name} ")]
    return float(value)


def test_a_stop_tells_everybody_who_waits_for_a_disk_that_hangs(start: Callable[..., Service]) -> None:
    service = start(shutdown_seconds=1, durability_of_predictions="strict")
    service.learn("m", [1.0], 1)
    waiting = service.predict("m", [1.0])["prediction_id"]
    asked: list[tuple[str, dict[str, object] | None]] = [
        ("/learn", ROUND),
        ("/predict", {"model": "m", "features": [1.0]}),
        ("/feedback", {"prediction_id": waiting, "label": 1}),
        ("/stream", {**ROUND, "id": "line"}),
        ("/models", {"model": "other"}),
        ("/models/m/reset", {}),
        ("/stats", None),
    ]
    with ThreadPoolExecutor(len(asked)) as pool, stalled(service.writer_pid):

        def ask(path: str, body: dict[str, object] | None) -> httpx.Response:
            if body is None:
                return service.client.get(path)
            media = "application/x-ndjson" if path == "/stream" else "application/json"
            return service.client.post(path, json=body, headers={"content-type": media})

        answers = [pool.submit(ask, *one) for one in asked]
        eventually(lambda: figure(service, "novikoff_journal_queue_events") >= 6)
        service.process.terminate()
        assert service.process.wait(PATIENCE_SECONDS) == 1
        for (path, _), answer in zip(asked, answers, strict=True):
            if path == "/stream":  # whose answer had begun
                last = json.loads(answer.result().text)
                assert last["ended"] and last["error"]["code"] == "outcome-unknown"
            else:
                assert problem_of(answer.result()) == (503, "outcome-unknown"), path
    service.kill()
    assert "Traceback" not in "".join(service.log) and "ASGI" not in "".join(service.log)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] >= 1


def test_a_stop_does_not_wait_for_ever_for_a_disk_that_hangs(start: Callable[..., Service]) -> None:
    service = start(shutdown_seconds=1)
    acknowledged = service.learn("m", [1.0], 1)
    with stalled(service.writer_pid):
        service.process.terminate()
        assert service.process.wait(PATIENCE_SECONDS) == 1
    service.kill()  # it has ended; this waits for the end of its log
    assert "the disk has taken nothing" in "".join(service.log)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == acknowledged["rounds"]


def test_a_stop_amid_a_request_closes_its_connection_with_the_answer(start: Callable[..., Service]) -> None:
    service = start()
    sent = request("/learn", json.dumps(ROUND).encode())
    with connect(service) as connection:
        connection.sendall(sent)
        assert read_until(connection, b"}").startswith(b"HTTP/1.1 200")
        with stalled(service.writer_pid):
            connection.sendall(sent)
            eventually(
                lambda: metric(service, "novikoff_journal_queue_events") == 1, otherwise="it is not there"
            )
            service.process.send_signal(signal.SIGTERM)
            eventually(lambda: not listens(service), otherwise="the service does not stop")
        answer = read_to_end(connection)
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head, "or the service waits for a client that waits for nothing"
    assert json.loads(content)["rounds"] == 2
    assert service.process.wait(PATIENCE_SECONDS) == 0


def listens(service: Service) -> bool:
    try:
        connect(service).close()
    except ConnectionRefusedError:
        return False
    return True
