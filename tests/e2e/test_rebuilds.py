"""Rebuilds while other things happen: kills, loads, restarts, other replicas."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.routes.test_corrections import correct, label_of, lived, point, rebuilt, substance, void
from tests.web.routes.test_forget import traces
from tests.web.routes.test_what_if import replayed

Start = Callable[..., Service]


def stopped_rebuild(service: Service, prediction_id: str) -> int:
    """Correct a round, and stop the process of the rebuild before it is done; the process."""
    model = prediction_id.rpartition("-")[0]
    label = 1
    while True:
        label = -label
        correct(service, prediction_id, label)
        while service.stats(model)["corrections"]["rebuilding"]:
            if worker := stopped_worker(service):
                return worker


def stopped_worker(service: Service, module: str = "play_process") -> int | None:
    """The process of a rebuild or job, which has been stopped; None if it is not there yet, or has just ended."""
    try:
        worker = service.child_running(module)
        os.kill(worker, signal.SIGSTOP)
        eventually(lambda: state_of(worker) in "TZX")
        return worker if state_of(worker) == "T" else None
    except (ValueError, OSError):
        return None


def state_of(pid: int) -> str:
    """T is stopped, Z and X have ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def kill(service: Service, worker: int) -> None:
    """SIGKILL to the service, and then to the process that it has left behind, stopped as that is."""
    service.process.kill()
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    service.kill()


def test_a_kill_amid_a_rebuild_leaves_the_model_as_it_was(start: Start) -> None:
    service = start()
    lived(service, "m", wrong={}, rounds=40)
    lived(service, "twin", wrong={5: -1}, rounds=40)
    before = substance(service, "m")
    worker = stopped_rebuild(service, "m-5")
    told = service.stats("m")["corrections"]
    # It may have told its result before it was stopped.
    assert substance(service, "m") == before or service.stats("m")["corrections"]["in_force"]
    service.learn("m", point(40), label_of(40))
    service.learn("twin", point(40), label_of(40))
    kill(service, worker)
    service.start()
    assert service.get("/stats?fields=rounds")["totals"]["rounds"]["revealed"] == 82
    after = service.stats("m")
    assert after["corrections"]["in_force"] >= told["in_force"] and after["rounds"]["revealed"] == 41
    correct(service, "m-5", -1)
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "twin")
    service.assert_replay_equals_live("m")


def test_what_was_due_is_taken_up_when_the_model_is_used_again(start: Start) -> None:
    service = start(models_loaded_max=1)
    lived(service, "m", wrong={6: 1}, rounds=20)
    lived(service, "twin", wrong={}, rounds=20)
    worker = stopped_rebuild(service, "m-5")
    kill(service, worker)
    service.start()
    service.learn("other", [1.0], 1)
    rebuilt(service, "m")
    correct(service, "m-5", label_of(5))
    service.learn("other", [1.0], 1)  # so that it would be unloaded, if nothing kept it
    correct(service, "m-6", label_of(6))
    rebuilt(service, "m")
    service.restart()
    assert substance(service, "m") == substance(service, "twin")
    service.assert_replay_equals_live("m")


def test_what_is_no_longer_kept_cannot_be_corrected_and_the_rest_can(start: Start) -> None:
    service = start(snapshot_every_events=5, events_kept_max=20)
    for number in range(80):
        service.learn(
            "m", point(number), -label_of(number) if number == 70 else label_of(number), id=f"m-{number}"
        )
        service.learn("twin", point(number), label_of(number))
    eventually(lambda: service.get("/models/m/events?limit=1")["events"][0]["seq"] > 40)
    refused = service.client.put("/feedback/m-3", json={"label": 1})
    assert problem_of(refused) == (404, "unknown-prediction")
    correct(service, "m-70", label_of(70))
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "twin")
    for number in range(80, 120):
        for model in ("m", "twin"):
            service.learn(model, point(number), label_of(number), id=f"{model}-{number}")
    correct(service, "m-110", -label_of(110))
    correct(service, "m-110", label_of(110))
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "twin")
    service.restart()
    assert substance(service, "m") == substance(service, "twin")


def test_a_kill_amid_a_forgetting_does_not_stop_it(start: Start) -> None:
    service = start()
    for number in range(30):
        tag = {"tag": "mrs-smith@example.org"} if number % 5 == 2 else {}
        service.learn("m", point(number), label_of(number), **tag)
        if not tag:
            service.learn("twin", point(number), label_of(number))
    service.post("/models/m/forget", {"tag": "mrs-smith@example.org"})
    worker = None
    while not worker and service.stats("m")["corrections"]["rebuilding"]:
        worker = stopped_worker(service)
    if worker:
        kill(service, worker)
    else:
        service.kill()
    service.start()
    rebuilt(service, "m")
    assert substance(service, "m") == substance(service, "twin")
    assert traces(service.data) == []
    service.assert_replay_equals_live("m")


def test_what_is_being_forgotten_is_unknown_to_corrections(start: Start) -> None:
    """They would write its id into the journal again, and nothing would erase that."""
    service = start()
    tag = {"tag": "mrs-smith@example.org"}
    worker: int | None = None
    for number in range(10):
        more = tag if number == 5 else {}
        service.learn("m", point(number), label_of(number), id=f"m-{number}", **more)
    for number in range(10, 1_000, 2):
        service.post("/models/m/forget", tag)
        if service.stats("m")["corrections"]["rebuilding"] and (worker := stopped_worker(service)):
            break
        rebuilt(service, "m")
        for tagged in range(number, number + 2):
            service.learn("m", point(tagged), label_of(tagged), id=f"m-{tagged}", **tag)
    assert worker is not None
    gone = 5 if number == 10 else number - 1
    put = service.client.put(f"/feedback/m-{gone}", json={"label": -label_of(gone)})
    deleted = service.client.delete(f"/predictions/m-{gone}")
    os.kill(worker, signal.SIGCONT)
    assert problem_of(put) == problem_of(deleted) == (404, "unknown-prediction")
    rebuilt(service, "m")
    assert traces(service.data) == []
    service.assert_replay_equals_live("m")


@pytest.mark.parametrize("lost", ["class", "name"])
def test_a_fit_does_not_bring_back_what_a_correction_has_removed_meanwhile(start: Start, lost: str) -> None:
    service = start()
    service.create("m", features="named", labels=None)
    for number in range(6):
        service.learn("m", {"a": float(number), "b": 1.0}, label_of(number), id=f"m-{number}")
    wrong = {"typo": 1.0} if lost == "name" else {"a": 1.0}
    service.learn("m", wrong, 1 if lost == "name" else "typo", id="m-wrong")
    worker = None
    while worker is None:
        job = service.post("/models/m/fit", {"source": "history"})
        while not worker and service.get(f"/jobs/{job['id']}")["state"] == "running":
            worker = stopped_worker(service, "fit_process")
    void(service, "m-wrong")
    rebuilt(service, "m")
    os.kill(worker, signal.SIGCONT)
    eventually(lambda: service.get(f"/jobs/{job['id']}")["state"] != "running")
    assert "forgot rounds" in service.get(f"/jobs/{job['id']}")["error"]
    assert service.fold("m").labels.values == [label_of(0), label_of(1)]
    assert "typo" not in service.client.get("/models/m/weights").text
    service.assert_replay_equals_live("m")


class Busy(threading.Thread):
    """Learns, predicts and reveals until it is told to stop."""

    def __init__(self, url: str, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url, self._number, self._stop_asked = url, number, stop
        self.done = 0
        self.failed: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
            while not self._stop_asked.is_set():
                name, features = f"busy-{self._number}-{self.done}", point(self.done + self._number)
                whole = {"model": "m", "features": features}
                answers = [http.post("/predict", json={**whole, "id": f"{name}-late"})]
                answers.append(http.post("/learn", json={**whole, "label": label_of(self.done), "id": name}))
                late = {"prediction_id": f"{name}-late", "label": label_of(self.done)}
                if self.done % 3:
                    answers.append(http.post("/feedback", json=late))
                self.failed += [each.text for each in answers if each.status_code != 200]
                self.done += 1


def test_corrections_under_load_end_and_are_what_a_replay_comes_to(start: Start) -> None:
    """Nobody is refused meanwhile; several at once for one round are one after the other."""
    service = start(snapshot_every_events=50)
    lived(service, "m", wrong={}, rounds=40)
    stop = threading.Event()
    busy = [Busy(service.url, number, stop) for number in range(2)]
    for each in busy:
        each.start()
    at_once = [
        threading.Thread(
            target=httpx.put,
            args=(f"{service.url}/feedback/m-7",),
            kwargs={"json": {"label": label}, "timeout": PATIENCE_SECONDS},
        )
        for label in (1, -1, 1, -1)
    ]
    for thread in at_once:
        thread.start()
    for number in (4, 9, 12):
        correct(service, f"m-{number}", -label_of(number))
    void(service, "m-20")
    for thread in at_once:
        thread.join()
    rebuilt(service, "m")
    stop.set()
    for each in busy:
        each.join()
        assert not each.failed and each.done
    for kind in ("corrected", "rebuilt"):
        assert service.get(f"/models/m/events?kinds={kind}")["events"]
    replayed(service, "m", settings={}, **{"as": "twin"})
    assert substance(service, "m") == substance(service, "twin")
    service.assert_replay_equals_live("m")


@pytest.mark.parametrize("journal", ["jetstream"], indirect=True)
def test_replicas_come_to_the_same_whichever_is_asked(start: Start, tmp_path: Path) -> None:
    one, other = start(), start(data=tmp_path / "other")
    lived(one, "m", wrong={5: -label_of(5), 6: 1})
    lived(one, "twin", wrong={})
    version = one.stats("m")["version"]
    other.predict("m", [1.0, 1.0], min_version=version, id="here")
    threads = [
        threading.Thread(target=correct, args=(each, f"m-{number}", label_of(number)))
        for each, number in ((one, 5), (other, 6))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in (one, other):  # what the other one was told comes a little later
        eventually(lambda each=each: substance(each, "m") == substance(one, "twin"))  # type: ignore[misc]
    eventually(lambda: one.client.post("/feedback", json={"prediction_id": "here", "label": 1}).is_success)
    eventually(lambda: other.stats("m")["version"] == one.stats("m")["version"])
    assert substance(one, "m") == substance(other, "m")
