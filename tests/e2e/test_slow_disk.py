"""A disk that takes its time: the process that writes the journal is stopped, and later goes on."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import httpx

from tests.support.otlp_receiver import metric
from tests.support.raw_http import connect, problem_in, read_to_end, read_until, request
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

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
            eventually(lambda: figure(service, "novikoff_journal_queue_events") == 1)
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
    asked: list[tuple[str, dict[str, object]]] = [
        ("/learn", ROUND),
        ("/predict", {"model": "m", "features": [1.0]}),
        ("/feedback", {"prediction_id": waiting, "label": 1}),
        ("/stream", {**ROUND, "id": "line"}),
        ("/models", {"model": "other"}),
        ("/models/m/reset", {}),
    ]
    with (
        ThreadPoolExecutor(len(asked)) as pool,
        connect(service) as reading,
        stalled(service.writer_pid),
    ):

        def ask(path: str, body: dict[str, object]) -> httpx.Response:
            media = "application/x-ndjson" if path == "/stream" else "application/json"
            return service.client.post(path, json=body, headers={"content-type": media})

        # What comes before the others is there when they are; it waits until all of them are on disk.
        reading.sendall(b"GET /stats HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answers = [pool.submit(ask, *one) for one in asked]
        eventually(lambda: figure(service, "novikoff_journal_queue_events") >= len(asked))
        service.process.terminate()
        assert service.process.wait(PATIENCE_SECONDS) == 1
        for (path, _), answer in zip(asked, answers, strict=True):
            if path == "/stream":  # whose answer had begun
                last = json.loads(answer.result().text)
                assert last["ended"] and last["error"]["code"] == "outcome-unknown"
            else:
                assert problem_of(answer.result()) == (503, "outcome-unknown"), path
        assert problem_in(read_to_end(reading)) == (503, "outcome-unknown")
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
    service.wait_for_end()  # of its log, which the process that writes has open, too
    assert "the disk has not responded" in "".join(service.log)
    service.start()
    assert service.stats("m")["rounds"]["revealed"] == acknowledged["rounds"]


def test_a_stop_amid_a_request_closes_its_connection_with_the_answer(start: Callable[..., Service]) -> None:
    service = start(shutdown_seconds=2 * PATIENCE_SECONDS)  # it ends as soon as the disk goes on
    sent = request("/learn", json.dumps(ROUND).encode())
    with connect(service) as connection:
        connection.sendall(sent + sent[:1])  # or it may be closed as one that is not used again
        assert read_until(connection, b"}").startswith(b"HTTP/1.1 200")
        with stalled(service.writer_pid):
            connection.sendall(sent[1:])
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
