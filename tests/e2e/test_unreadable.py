"""A model that cannot be read: what tells of all models tells of the others, and names it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from novikoff import Client
from tests.commands.running import novikoff
from tests.e2e.test_damage import ROUNDS, Kept, turn_over_bits
from tests.support.service_process import Service, problem_of

Start = Callable[..., Service]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """Of which no event is kept that a snapshot covers."""
    yield Kept(tmp_path / "kept", events_kept_max=0)


def test_lists_go_on_without_a_model_whose_snapshots_are_damaged(kept: Kept, start: Start) -> None:
    turn_over_bits(kept.data, "snapshot", "state", "true")
    assert_lists_go_on_without_m(start(kept.data, **kept.settings))


@pytest.mark.parametrize("table", ["event", "pending"])
def test_lists_go_on_without_a_model_of_which_rows_are_damaged(kept: Kept, start: Start, table: str) -> None:
    with closing(sqlite3.connect(kept.data / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM snapshot WHERE model = (SELECT id FROM model WHERE name = 'm')")
        connection.execute(
            f"UPDATE {table} SET body = x'c1' WHERE model = (SELECT id FROM model WHERE name = 'm')"
        )
        connection.commit()
    assert_lists_go_on_without_m(start(kept.data, **kept.settings))


def assert_lists_go_on_without_m(service: Service) -> None:
    """What tells of all models tells of the others, and names the one that cannot be read."""
    for sort in ("name", "rounds", "error_rate", "mistakes", "updated_at"):
        page = service.get(f"/stats?sort={sort}")
        assert [line["model"] for line in page["models"]] == ["other"]
        (damaged,) = page["unreadable"]
        assert damaged["model"] == "m" and damaged["detail"]
        assert page["totals"]["models"] == 2 and page["totals"]["rounds"]["revealed"] == 2 * ROUNDS
    listed = service.get("/models")
    assert [line["model"] for line in listed["models"]] == ["other"]
    assert [each["model"] for each in listed["unreadable"]] == ["m"]
    metrics = service.client.get("/metrics")
    assert metrics.status_code == 200 and 'novikoff_model_revealed_total{model="other"}' in metrics.text
    assert problem_of(service.client.get("/feed?model=m")) == (503, "model-damaged")
    with service.client.stream("GET", "/feed") as stream:
        data = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert '"other"' in data and '"m"' not in data
    with Client(service.url) as client:
        assert [each.model for each in client.fleet().unreadable] == ["m"]
        assert [line.model for line in client.list_models()] == ["other"]
    told = novikoff("top", "--once", "--url", service.url)
    assert told.status == 0 and "m cannot be read: " in told.out, told


def test_a_model_that_a_crash_left_behind_and_that_is_damaged_harms_no_list(
    tmp_path: Path, start: Start
) -> None:
    """Its summary is older than its events, and cannot be brought up to date."""
    service = start(tmp_path / "data", snapshot_every_events=1_000)
    for i in range(20):
        for model in ("m", "other"):
            service.learn(model, [float(i), 1.0], 1)
    service.kill()
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        connection.execute(
            "UPDATE event SET body = x'c1' WHERE seq ="
            " (SELECT max(seq) FROM event WHERE model = (SELECT id FROM model WHERE name = 'm'))"
        )
        connection.commit()
    service.start()
    for _ in range(3):
        page = service.get("/stats")
        assert [line["model"] for line in page["models"]] == ["other"]
        assert [line["model"] for line in page["unreadable"]] == ["m"]
        assert page["totals"]["models"] == 2 and page["totals"]["rounds"]["revealed"] >= 20


def test_damaged_settings_in_the_list_of_models_harm_no_other_line(kept: Kept, start: Start) -> None:
    with closing(sqlite3.connect(kept.data / "journal.sqlite")) as connection:
        connection.execute("UPDATE model SET settings = x'c1' WHERE name = 'm'")
        connection.commit()
    service = start(kept.data, **kept.settings)
    page = service.get("/models")
    assert [line["model"] for line in page["models"]] == ["other"]
    assert [line["model"] for line in page["unreadable"]] == ["m"]
    page = service.get("/stats")
    assert [line["model"] for line in page["models"]] == ["other"]
    assert [line["model"] for line in page["unreadable"]] == ["m"]
    assert service.client.delete("/models/m").status_code == 204


def test_a_feed_of_a_model_that_becomes_unreadable_ends_and_says_why_when_asked_again(
    start: Start,
) -> None:
    service = start(snapshot_every_events=5, events_kept_max=0, models_loaded_max=1)
    for _ in range(20):
        service.learn("m", [1.0], 1)
    with service.client.stream("GET", "/feed?model=m") as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("data: "))
        turn_over_bits(service.data, "snapshot", "state", "true")
        service.learn("other", [1.0], 1)  # there is room for one in memory
        assert not [line for line in lines if line.startswith("data: ")]
    assert problem_of(service.client.get("/feed?model=m")) == (503, "model-damaged")
    assert not [line for line in service.log if "unexpected error" in line or "Traceback" in line]
