"""Events of which a column has changed are put back: the rest of the file tells what it was, and a digest proves it."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands.event_cells import Cell, event_cells
from tests.commands.repaired import JOURNAL, Content, content_of, fill
from tests.commands.running import novikoff
from tests.support.service_process import Service


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No snapshot has what the events do."""
    service = Service(tmp_path_factory.mktemp("stopped"), snapshot_every_events=1000).start()
    fill(service)
    assert service.stop() == 0
    service.close()
    return service.data


@pytest.fixture(scope="module")
def truth(stopped: Path) -> Content:
    return content_of(stopped)


def turn(data: Path, *places: int, bit: int = 1) -> None:
    content = bytearray((data / JOURNAL).read_bytes())
    for at in places:
        content[at] ^= bit
    (data / JOURNAL).write_bytes(content)


PLACES: dict[str, Callable[[Cell], int]] = {
    "number": lambda cell: cell.number,
    "model": lambda cell: cell.columns["model"],
    "id": lambda cell: cell.columns["prediction_id"],
    "previous": lambda cell: cell.columns["previous"],
}


@pytest.mark.parametrize("bit", [1, 4, 64])
@pytest.mark.parametrize("place", PLACES)
def test_an_event_whose_column_has_changed_is_put_back(
    stopped: Path, truth: Content, tmp_path: Path, place: str, bit: int
) -> None:
    for seq in (10, max(seq for seq in truth.events if truth.events[seq][0] != 1)):
        data = Path(shutil.copytree(stopped, tmp_path / str(seq)))
        turn(data, PLACES[place](event_cells(data / JOURNAL)[seq]), bit=bit)
        assert novikoff("doctor", "--data", data).status == 1
        ended = novikoff("doctor", "--data", data, "--repair")
        assert ended.status == 0, ended
        assert content_of(data) == truth


def test_a_model_that_was_the_first_is_known_by_its_name(
    stopped: Path, truth: Content, tmp_path: Path
) -> None:
    """Its number, 1, has no bytes of its own in the row: the type of the column says it."""
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    turn(data, event_cells(data / JOURNAL)[11].types["model"])
    assert novikoff("doctor", "--data", data, "--repair").status == 0
    assert content_of(data) == truth


def test_neighbours_that_have_changed_are_put_back_as_well(
    stopped: Path, truth: Content, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    cells = event_cells(data / JOURNAL)
    turn(data, *(cells[seq].number for seq in range(40, 60)), bit=0x55)  # by more than a bit
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 0, ended
    assert content_of(data) == truth


def test_what_no_digest_proves_is_given_up_by_name(stopped: Path, truth: Content, tmp_path: Path) -> None:
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    cell = event_cells(data / JOURNAL)[50]
    turn(data, cell.number, cell.columns["previous"] - 1)  # the digest is the last of the body
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 1 and "50" in ended.out, ended
    found = content_of(data)
    assert all(found.events[seq] == truth.events[seq] for seq in found.events if seq != 51), ended


@pytest.mark.parametrize(
    ("table", "column"),
    [("snapshot", "model"), ("snapshot", "seq"), ("pending", "model"), ("pending", "at"), ("model", "id"),
     ("outcome", "through")],
)  # fmt: skip
def test_a_number_of_which_a_bit_has_turned_is_put_back_in_every_table(
    stopped: Path, truth: Content, tmp_path: Path, table: str, column: str
) -> None:
    """Also the newest snapshot of a model whose events are no longer kept: nothing else has what they did."""
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        if table == "snapshot":
            connection.execute("DELETE FROM event")
            connection.execute("DELETE FROM outcome")
        connection.commit()
        before = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        connection.execute("PRAGMA writable_schema=ON")  # so that no index follows the change
        connection.execute("DELETE FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        connection.commit()
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        (number,) = connection.execute(f"SELECT max({column}) FROM {table}").fetchone()
        update = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"
        connection.execute(update, (number ^ 1024, number))
        connection.commit()
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 0, ended
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        assert connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() == before


@pytest.mark.parametrize("column", ["voided_through", "created_at", "revealed", "newest"])
def test_the_line_of_a_model_is_put_back_and_not_made_anew(
    stopped: Path, tmp_path: Path, column: str
) -> None:
    """Also until when predictions are void, which nothing else tells once its events are no longer kept."""
    data = Path(shutil.copytree(stopped, tmp_path / "data"))
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        connection.execute("DELETE FROM event")
        connection.execute("DELETE FROM outcome")
        before = connection.execute("SELECT * FROM model ORDER BY id").fetchall()
        (number,) = connection.execute(f"SELECT {column} FROM model WHERE name = 'm'").fetchone()
        connection.execute(f"UPDATE model SET {column} = ? WHERE name = 'm'", (number ^ 8,))
        connection.commit()
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 0, ended
    with closing(sqlite3.connect(data / JOURNAL)) as connection:
        assert connection.execute("SELECT * FROM model ORDER BY id").fetchall() == before
