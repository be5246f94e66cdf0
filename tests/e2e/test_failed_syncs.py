"""A sync that fails leaves it open what is on disk: nobody is told what is not so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.failing_syncs import FailingSyncs
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

LOG, FILE = "journal.sqlite-wal", "journal.sqlite"
ROUND = {"model": "m", "features": [1.0, 2.0], "label": 1}
READY = {"loop_pause_seconds_max": 3600}
"""For a service: that it has stood still is no reason not to be ready."""


@pytest.fixture
def syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingSyncs:
    made = FailingSyncs(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def revealed(service: Service) -> int:
    rounds: int = service.stats("m")["rounds"]["revealed"]
    return rounds


def test_a_round_whose_sync_failed_is_not_said_to_be_lost(
    start: Callable[..., Service], syncs: FailingSyncs
) -> None:
    """After a power cut it may be in the journal. The same round with the same id is learned once in all."""
    service = start()
    service.learn("m", [1.0, 2.0], 1)
    for number in range(3):
        before, body = service.post("/learn", ROUND)["rounds"], {**ROUND, "id": f"r{number}"}
        syncs.begin(LOG)
        answer = service.client.post("/learn", json=body)
        assert problem_of(answer) == (503, "outcome-unknown")
        assert int(answer.headers["retry-after"]) >= 1
        assert revealed(service) == before, "nothing is applied that is not durable"
        service.kill()
        syncs.end()
        service.start()
        assert revealed(service) == before, (
            "it was cut off from the log: a power cut could have left it there"
        )
        assert service.post("/learn", body)["rounds"] == before + 1
    service.assert_replay_equals_live("m")


def test_a_sync_that_fails_once_is_made_good_and_the_round_counts_once(
    start: Callable[..., Service], syncs: FailingSyncs
) -> None:
    service = start()
    service.learn("m", [1.0, 2.0], 1)
    syncs.once(LOG)
    assert service.post("/learn", ROUND)["rounds"] == 2
    assert syncs.are_over
    assert service.post("/learn", ROUND)["rounds"] == 3
    service.kill()
    service.start()
    assert revealed(service) == 3
    service.assert_replay_equals_live("m")


def test_what_was_in_doubt_is_decided_as_soon_as_the_disk_works_again(
    start: Callable[..., Service], syncs: FailingSyncs
) -> None:
    """Without any request: what the service has in memory and what a kill would leave are the same then."""
    service = start(**READY)
    service.learn("m", [1.0, 2.0], 1)
    syncs.begin(LOG)
    assert service.refused("/learn", ROUND) == (503, "outcome-unknown")
    answer = service.client.get("/readyz")
    assert (
        problem_of(answer) == (503, "not-ready")
        and "outcome of the last write is unknown" in answer.json()["detail"]
    )
    assert service.predict("m", [1.0, 2.0])["version"] == 1, "predictions go on"
    syncs.end()
    eventually(lambda: service.client.get("/readyz").status_code == 200)
    assert revealed(service) == 1
    service.kill()
    service.start()
    assert revealed(service) == 1
    assert service.post("/learn", ROUND)["rounds"] == 2
    service.assert_replay_equals_live("m")


def test_a_start_is_refused_that_cannot_sync_what_a_crash_has_left(
    start: Callable[..., Service], syncs: FailingSyncs
) -> None:
    """Or a round would be known whose sync had failed, until a power cut takes it away."""
    service = start()
    service.learn("m", [1.0, 2.0], 1)
    syncs.begin(LOG)
    assert service.refused("/learn", ROUND) == (503, "outcome-unknown")
    service.kill()
    syncs.begin(FILE)
    with pytest.raises(AssertionError):
        service.start(cold=True)  # so that the library is loaded into the service itself
    assert service.wait_for_end() == 2
    assert f"{service.data / FILE} cannot be synced" in service.log[-1]
    syncs.end()
    service.start()
    assert revealed(service) == 1
    service.assert_replay_equals_live("m")


@pytest.mark.thorough
def test_checkpoints_that_fail_are_told_before_the_log_has_eaten_the_disk(
    start: Callable[..., Service], syncs: FailingSyncs
) -> None:
    service = start(**READY)
    large = [1.0] * 20_000  # 160 kB an event
    service.learn("m", large, 1)
    syncs.begin(FILE)

    def is_unready() -> bool:
        service.learn("m", large, 1)  # the log has it, so it is durable
        return service.client.get("/readyz").status_code == 503

    eventually(is_unready, otherwise="the log grows, and nobody is told")
    log = service.data / LOG
    assert log.stat().st_size < 64_000_000
    assert "cannot be checkpointed" in service.client.get("/readyz").json()["detail"]
    service.wait_for_log("the WAL cannot be checkpointed")
    (counted,) = [
        line
        for line in service.client.get("/metrics").text.splitlines()
        if line.startswith("novikoff_journal_checkpoint_failures_total")
    ]
    assert float(counted.split()[-1]) >= 1
    learned = revealed(service)

    syncs.end()
    eventually(lambda: service.client.get("/readyz").status_code == 200, otherwise="it stays unready")
    eventually(lambda: log.stat().st_size < 10_000_000, otherwise="the log stays as long as it was")
    service.kill()
    service.start()
    assert revealed(service) == learned
    service.assert_replay_equals_live("m")


@pytest.mark.parametrize("unsynced", ["", "/new", "/new/deep"])
def test_a_new_directory_and_those_above_it_are_synced(
    tmp_path: Path, syncs: FailingSyncs, unsynced: str
) -> None:
    """Or a power cut would take them away with all that is in them: a start is refused that cannot sync one of them."""
    syncs.begin(f"{tmp_path}{unsynced}")
    service = Service(tmp_path / "new" / "deep" / "data")
    with pytest.raises(AssertionError):
        service.start(cold=True)
    assert service.wait_for_end() == 2
    service.close()
    assert "cannot be written: Input/output error" in service.log[-1]
