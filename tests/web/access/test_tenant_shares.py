"""Limits that tenants share: one that floods the service gives way to the others, and leaves them room."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.jobs.jobs import FINISHED_KEPT, Job, Jobs
from service.runtime.byte_budget import ByteBudget, Tenants
from service.web.problems import HttpError
from service.web.stream.held_answers import MEMORY_BYTES_MAX, AnswerFiles, HeldAnswers
from tests.journal.journals import sqlite_at
from tests.support.api_keys import Holder, good, lines_of, refusal
from tests.support.service_process import Service
from tests.support.waiting import eventually
from tests.web.raw import connect

Start = Callable[..., Service]

MB = 1_000_000


class Tenancy:
    """A service with a tenant that floods it, a calm one and its owner."""

    def __init__(self, start: Start, role: str = "admin", **settings: object) -> None:
        self.calm = Holder("calm", role, "calm-")
        self.flood = Holder("flood", role, "flood-")
        self.owner = Holder("owner", "admin")
        self.service = start(api_keys=lines_of(self.calm, self.flood, self.owner), **settings)
        self.meet()

    def meet(self) -> None:
        for holder in (self.calm, self.flood, self.owner):
            holder.at(self.service)
        self.service.client.headers.update(self.owner.headers)


def loaded(holder: Holder) -> int:
    """How many models in memory the holder can see."""
    (line,) = [
        line
        for line in holder.get("/metrics").text.splitlines()
        if line.startswith("novikoff_models_loaded ")
    ]
    return round(float(line.split()[1]))


@pytest.mark.parametrize(
    ("limit", "dimension"),
    [({"models_loaded_max": 20}, 2), ({"models_loaded_bytes_max": 10 * MB}, 50_000)],
    ids=["number", "bytes"],
)
@pytest.mark.thorough
def test_models_in_memory(start: Start, limit: dict[str, int], dimension: int) -> None:
    met = Tenancy(start, **limit)
    example = [1.0] * dimension
    for at in range(5):
        good(met.calm.learn(f"calm-{at}", example, 1))
    for at in range(60):
        good(met.flood.learn(f"flood-{at}", example, 1))
    asked = cycle(range(60))
    eventually(lambda: good(met.flood.get(f"/stats/flood-{next(asked)}")) and loaded(met.flood) <= 20)
    assert loaded(met.calm) == 5
    assert loaded(met.flood) > 5 and loaded(met.owner) == 5 + loaded(met.flood)
    for at in range(5, 9):  # and it finds room for more
        good(met.calm.learn(f"calm-{at}", example, 1))
    assert loaded(met.calm) == 9
    assert good(met.flood.learn("flood-0", example, 1))["rounds"] == 2
    met.service.assert_replay_equals_live("flood-0")


def test_a_tenant_that_has_most_gives_way_to_itself(start: Start) -> None:
    met = Tenancy(start, models_loaded_max=10)
    for at in range(30):
        good(met.flood.learn(f"flood-{at}", [1.0], 1))
    asked = cycle(range(30))
    eventually(lambda: good(met.flood.get(f"/stats/flood-{next(asked)}")) and loaded(met.flood) == 10)


def saved(service: Service) -> set[str]:
    """The models of which there are snapshots."""
    with sqlite3.connect(f"file:{service.data / 'journal.sqlite'}?mode=ro", uri=True) as journal:
        return {
            name
            for (name,) in journal.execute(
                "SELECT DISTINCT name FROM snapshot JOIN model ON model.id = model"
            )
        }


def test_outcomes(start: Start) -> None:
    met = Tenancy(start, outcomes_bytes_max=64 * 200, snapshot_every_events=10**6)
    for at in range(40):  # more than any of the other's models will have
        good(met.calm.learn("calm-0", [1.0], 1, id=f"c{at}"))
    for at in range(400):
        good(met.flood.learn(f"flood-{at % 20}", [1.0], 1, id=f"f{at}"))
    names = saved(met.service)
    assert any(name.startswith("flood-") for name in names) and "calm-0" not in names
    assert good(met.calm.learn("calm-0", [1.0], 1, id="c0"))["rounds"] == 1


def test_models_on_disk(start: Start) -> None:
    met = Tenancy(start, models_max=10)
    made = [met.flood.learn(f"flood-{at}", [1.0], 1).status_code for at in range(8)]
    assert made == [200] * 5 + [409] * 3
    for at in range(2):
        good(met.calm.learn(f"calm-{at}", [1.0], 1))
    met.service.restart()
    met.meet()
    assert refusal(met.flood.learn("flood-8", [1.0], 1)) == (409, "too-many-models")
    good(met.calm.learn("calm-2", [1.0], 1))
    for at in range(5):
        assert met.flood.client.delete(f"/models/flood-{at}").is_success
    good(met.flood.learn("flood-8", [1.0], 1))


def test_fits(start: Start) -> None:
    met = Tenancy(start, jobs_max=2)
    noise = [{"features": [1.0, float(i)], "label": 1 if i % 2 else -1} for i in range(2_000)]
    body = {"examples": noise, "passes_max": 1_000_000, "algorithm": "online"}  # it does not end by itself
    for name in ("flood-0", "flood-1", "calm-0"):
        good(met.owner.post("/models", {"model": name}))
    running = [good(met.flood.post("/models/flood-0/fit", body))["id"]]
    assert refusal(met.flood.post("/models/flood-1/fit", body)) == (503, "overloaded")
    running.append(good(met.calm.post("/models/calm-0/fit", body))["id"])
    for job in running:
        assert met.owner.client.delete(f"/jobs/{job}").is_success
    good(met.flood.post("/models/flood-1/fit", body))


async def test_finished_fits(tmp_path: Path) -> None:
    journal = sqlite_at(tmp_path, events_kept_max=1_000)
    clock = Clock()
    settings = EngineSettings(jobs_max=2)
    fleet = Fleet(journal, clock, settings, Tenants(lambda: ["calm-", "flood-"]))
    jobs = Jobs(journal, fleet, clock, settings)
    of_calm = Job("calm", "fit", "calm-0", {}, 1, state="done")
    jobs._jobs = {
        job.id: job
        for job in (of_calm, *(Job(f"j{at}", "fit", "flood-0", {}, 1, state="done") for at in range(150)))
    }  # type: ignore[assignment]
    jobs.check_room("flood-1")
    assert len(jobs._jobs) == FINISHED_KEPT and await jobs.find("calm") is of_calm
    assert "j0" not in jobs._jobs and "j149" in jobs._jobs


def test_streams(start: Start) -> None:
    met = Tenancy(start, streams_max=4)
    line = b'{"features": [1.0], "label": 1}\n'

    def head(holder: Holder) -> bytes:
        model = "flood-m" if holder is met.flood else "calm-m"
        return (
            f"POST /stream?model={model} HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {holder.secret}\r\n"
            "content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        ).encode()

    with ExitStack() as stack:
        for holder, status in (
            (met.flood, 200),
            (met.flood, 200),
            (met.flood, 503),
            (met.calm, 200),
            (met.calm, 503),
        ):
            connection = stack.enter_context(connect(met.service))
            connection.sendall(head(holder) + b"%x\r\n%b\r\n" % (len(line), line))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 %d" % status)
        assert refusal(met.flood.stream(line, "?model=flood-m")) == (503, "overloaded")


def test_feeds(start: Start) -> None:
    met = Tenancy(start, feeds_max=4)
    with ExitStack() as stack:
        followed = [  # kept, since a feed ends with whoever reads it
            stack.enter_context(met.flood.client.stream("GET", "/feed")).iter_lines() for _ in range(2)
        ]
        assert [next(lines) for lines in followed] == ["retry: 2000"] * 2
        assert refusal(met.flood.get("/feed")) == (503, "overloaded")
        assert next(stack.enter_context(met.calm.client.stream("GET", "/feed")).iter_lines()) == "retry: 2000"


async def test_answers_that_wait_on_disk(tmp_path: Path) -> None:
    files = AnswerFiles(ByteBudget(10 * MB, Tenants(lambda: ["calm-", "flood-"])), tmp_path)
    flood = [HeldAnswers(files, "flood-") for _ in range(3)]
    with pytest.raises(HttpError, match="half of them for one tenant"):
        for _ in range(100):
            for held in flood:
                await held.put(b"x" * MEMORY_BYTES_MAX)
    assert 4 * MB < files.budget.bytes <= 5 * MB + MEMORY_BYTES_MAX
    calm = HeldAnswers(files, "calm-")
    for _ in range(4):
        await calm.put(b"y" * MEMORY_BYTES_MAX)
    for held in (*flood, calm):
        held.close()
    assert (
        files.budget.take(5 * MB, "flood-")
        and not files.budget.take(1, "flood-")
        and files.budget.take(1, "calm-")
    )
