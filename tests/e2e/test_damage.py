"""Damage to the file: told at the start by name, mended where events allow it, and never served."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import novikoff
from tests.support.forkserver import run
from tests.support.service_process import Service, problem_of

PAGE_BYTES = 8192
ROUNDS = 60


class Kept:
    """The directory of a service that was stopped, and what it served."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.data = data
        self.settings = {"snapshot_every_events": 20, **settings}
        service = Service(data, **self.settings).start()
        for i in range(ROUNDS):
            features = [float(i % 5), float(i % 3), 1.0]
            service.reveal(service.predict("m", features, id=f"r{i}")["prediction_id"], 1 if i % 2 else -1)
            service.learn("other", features, 1)
        service.predict("m", [1.0, 2.0, 3.0], id="waits")
        self.served = served_by(service)
        self.answer = service.client.post("/feedback", json={"prediction_id": "r7", "label": 1}).json()
        assert service.stop() == 0
        service.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """All events are kept."""
    return Kept(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """No event is kept that a snapshot covers."""
    return Kept(tmp_path_factory.mktemp("bare") / "data", events_kept_max=0)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Callable[[Kept], Path]]:
    def copied(kept: Kept) -> Path:
        shutil.copytree(kept.data, tmp_path / "data")
        return tmp_path / "data"

    yield copied


def served_by(service: Service) -> list[Any]:
    return [
        service.stats("m")["rounds"],
        service.get("/models/m/weights"),
        service.get("/models/other/weights"),
    ]


def assert_start_is_refused(data: Path) -> None:
    """Because of the file, and with a line that says what to do."""
    ended = run("serve", "--data", str(data), "--port", "0")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith(f"novikoff: {data / 'journal.sqlite'} is damaged: ")
    assert f"novikoff doctor --data {data}" in ended.stderr and "backup" in ended.stderr


def test_a_file_that_is_cut_off_is_named_at_the_start(whole: Kept, copy: Callable[[Kept], Path]) -> None:
    data = copy(whole)
    file = data / "journal.sqlite"
    size = file.stat().st_size
    for kept_bytes in (size - PAGE_BYTES, size - 100, size // 2, PAGE_BYTES + 10, 100):
        shutil.copy(whole.data / "journal.sqlite", file)
        with file.open("rb+") as opened:
            opened.truncate(kept_bytes)
        assert_start_is_refused(data)


def root_pages(data: Path) -> dict[str, int]:
    """Where each table and index begins."""
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        return dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage"))


def tear(data: Path, page: int) -> None:
    with (data / "journal.sqlite").open("rb+") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * 200)


def test_a_torn_page_at_the_root_of_any_table_or_index_is_told_at_the_start(
    whole: Kept, copy: Callable[[Kept], Path]
) -> None:
    data = copy(whole)
    roots = root_pages(data)
    assert {"model", "event", "event_of_model", "pending", "snapshot", "outcome"} <= roots.keys()
    for name, page in roots.items():
        if name in ("summarised", "sqlite_sequence"):
            continue
        shutil.copy(whole.data / "journal.sqlite", data)
        tear(data, page)
        print(name)
        assert_start_is_refused(data)


@pytest.mark.parametrize("torn", ["event_of_model", "snapshot", "outcome", "pending_of_model", "journal"])
def test_a_torn_page_of_what_is_derived_is_mended(
    whole: Kept, copy: Callable[[Kept], Path], torn: str, start: Callable[..., Service]
) -> None:
    data = copy(whole)
    tear(data, root_pages(data)[torn])
    looked = novikoff("doctor", "--data", data)
    assert looked.status == 1 and "copies everything readable" in looked.out
    mended = novikoff("doctor", "--data", data, "--repair")
    assert mended.status == 0 and "no problems found" in mended.out, mended.out
    assert (data / "journal.sqlite.damaged").exists()
    service = start(data, **whole.settings)
    assert served_by(service) == whole.served
    assert service.reveal("r7", 1) == whole.answer
    service.reveal("waits", 1)


@pytest.mark.parametrize("torn", ["event", "pending"])
def test_what_is_on_a_torn_page_is_given_up_and_the_rest_is_served(
    whole: Kept, copy: Callable[[Kept], Path], torn: str, start: Callable[..., Service]
) -> None:
    """The snapshots have what the events did."""
    data = copy(whole)
    tear(data, root_pages(data)[torn])
    before = (data / "journal.sqlite").read_bytes()
    mended = novikoff("doctor", "--data", data, "--repair")
    assert mended.status == 1 and "discarded: " in mended.out, mended.out
    assert (data / "journal.sqlite.damaged").read_bytes() == before
    assert novikoff("doctor", "--data", data).status == 0
    service = start(data, **whole.settings)
    assert served_by(service)[1:] == whole.served[1:]
    if torn == "pending":
        assert service.reveal("r7", 1) == whole.answer


def turn_over_bits(data: Path, table: str, column: str, where: str) -> None:
    """One bit in the middle of each content: SQLite does not see it."""
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        connection.create_function(
            "turned", 1, lambda b: b[: len(b) // 2] + bytes([b[len(b) // 2] ^ 4]) + b[len(b) // 2 + 1 :]
        )
        changed = connection.execute(
            f"UPDATE {table} SET {column} = turned({column})"
            f" WHERE model = (SELECT id FROM model WHERE name = 'm') AND {where}"
        ).rowcount
        connection.commit()
        assert changed


NEWEST = "seq = (SELECT max(seq) FROM snapshot s WHERE s.model = snapshot.model)"


@pytest.mark.parametrize("where", [NEWEST, "true"])
def test_a_snapshot_with_a_turned_bit_is_passed_over(
    whole: Kept, copy: Callable[[Kept], Path], where: str, start: Callable[..., Service]
) -> None:
    data = copy(whole)
    turn_over_bits(data, "snapshot", "state", where)
    service = start(data, **whole.settings)
    assert served_by(service) == whole.served
    assert service.reveal("r7", 1) == whole.answer
    service.wait_for_log("the snapshot of m after event")
    service.stop()
    assert novikoff("doctor", "--data", data, "--repair").status == 0


@pytest.mark.parametrize("where", [NEWEST, "true"])
def test_a_damaged_snapshot_without_its_events_is_told_and_not_served(
    bare: Kept, copy: Callable[[Kept], Path], where: str, start: Callable[..., Service]
) -> None:
    data = copy(bare)
    turn_over_bits(data, "snapshot", "state", where)
    service = start(data, **bare.settings)
    assert problem_of(service.client.get("/stats/m")) == (503, "model-damaged")
    assert service.refused("/predict", {"model": "m", "features": [1.0, 1.0, 1.0]}) == (
        503,
        "model-damaged",
    )
    assert service.refused("/feedback", {"prediction_id": "waits", "label": 1}) == (
        503,
        "model-damaged",
    )
    assert service.get("/models/other/weights") == bare.served[2], "the others are well"
    assert not [line for line in service.log if "unexpected error" in line]


def test_an_outcome_with_a_turned_bit_is_not_told(
    whole: Kept, copy: Callable[[Kept], Path], start: Callable[..., Service]
) -> None:
    data = copy(whole)
    turn_over_bits(data, "outcome", "body", "true")
    service = start(data, **whole.settings)
    assert service.refused("/feedback", {"prediction_id": "r7", "label": 1}) == (503, "journal-unavailable")
    service.stop()
    assert novikoff("doctor", "--data", data, "--repair").status == 0
    service.start()
    assert service.reveal("r7", 1) == whole.answer


@pytest.mark.parametrize("table", ["event", "pending"])
def test_a_row_that_cannot_be_read_is_told_and_harms_no_other_model(
    whole: Kept, copy: Callable[[Kept], Path], table: str, start: Callable[..., Service]
) -> None:
    data = copy(whole)
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM snapshot WHERE model = (SELECT id FROM model WHERE name = 'm')")
        connection.execute(
            f"UPDATE {table} SET body = x'c1' WHERE model = (SELECT id FROM model WHERE name = 'm')"
        )
        connection.commit()
    service = start(data, **whole.settings)
    assert problem_of(service.client.get("/stats/m")) == (503, "model-damaged")
    assert service.refused("/feedback", {"prediction_id": "waits", "label": 1})[0] == 503
    assert service.get("/models/other/weights") == whole.served[2]
    assert service.stop() == 0
    assert novikoff("doctor", "--data", data).status == 1
