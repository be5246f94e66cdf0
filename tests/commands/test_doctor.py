"""`novikoff doctor`: sound directories are called sound, and every kind of damage is found."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from novikoff import Client
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.sealing import MODEL_COLUMNS, add_functions, seal_snapshot
from tests.commands.examples import make_examples
from tests.commands.running import failed, novikoff, worked
from tests.support.service_process import Service

EXAMPLES = make_examples(30)


def fill(service: Service) -> None:
    """Models of every origin with rounds of every kind, some predictions left waiting."""
    for i, (features, label) in enumerate(EXAMPLES):
        service.learn("learned", features, label, id=f"l{i}")
        prediction_id = service.predict("revealed", features, id=f"r{i}")["prediction_id"]
        if i % 10:
            service.reveal(prediction_id, label)
    service.post("/models/learned/reset", {})
    for features, label in EXAMPLES[:5]:
        service.learn("learned", features, label)
    with Client(service.url) as client:
        client.learn_many("in-blocks", EXAMPLES, safe=False)
        client.import_model("imported", client.export_model("learned"))
    service.create("untouched")
    service.learn("deleted", [1.0], 1)
    service.client.delete("/models/deleted")


SETTINGS = {
    "whole": {"snapshot_every_events": 10},
    "trimmed": {"snapshot_every_events": 10, "events_kept_max": 15},
    "bare": {"snapshot_every_events": 10, "events_kept_max": 0},
}
"""Services that keep all events, some, and none but the newest."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The data directory of a service that was filled and stopped."""
    directories: dict[str, Path] = {}

    def directory(name: str) -> Path:
        if name not in directories:
            directories[name] = tmp_path_factory.mktemp(name) / "data"
            service = Service(directories[name], **SETTINGS[name]).start()
            fill(service)
            assert service.stop() == 0
            service.close()
        return directories[name]

    return directory


@pytest.fixture
def damage(tmp_path: Path, kept: Callable[[str], Path]) -> Callable[..., Path]:
    """Copies a directory and runs statements on the copy."""

    def copy(name: str, *statements: str) -> Path:
        data = tmp_path / "data"
        shutil.copytree(kept(name), data)
        connection = sqlite3.connect(data / "journal.sqlite")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        add_functions(connection)
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
        connection.commit()
        connection.close()
        return data

    return copy


SERVED = ("/models/learned/weights", "/models/revealed/weights", "/models/revealed")


@pytest.fixture(scope="module")
def served(
    kept: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """What a service tells that has a sound directory."""

    @cache
    def tell(name: str) -> dict[str, Any]:
        sound = Path(shutil.copytree(kept(name), tmp_path_factory.mktemp(f"sound-{name}") / "data"))
        service = Service(sound).start()
        told = {path: service.get(path) for path in SERVED}
        service.close()
        return told

    return tell


MODEL = "model = (SELECT id FROM model WHERE name = 'revealed')"
MISTAKEN = MODEL_COLUMNS.replace("mistakes", "mistakes + 1")
NEWEST = f"{MODEL} AND seq = (SELECT max(seq) FROM snapshot WHERE {MODEL})"


@pytest.mark.parametrize("name", ["whole", "trimmed", "bare"])
def test_a_sound_directory_is_called_sound(
    kept: Callable[[str], Path], damage: Callable[..., Path], name: str
) -> None:
    before = (kept(name) / "journal.sqlite").read_bytes()
    said = worked("doctor", "--data", damage(name))
    assert "no problems found" in said and "problem" not in said.replace("no problems found", "")
    assert ("no longer kept" in said) == (name == "bare")
    assert (kept(name) / "journal.sqlite").read_bytes() == before


def test_what_a_kill_leaves_behind_is_sound(tmp_path: Path, start: Callable[..., Service]) -> None:
    service = start(snapshot_every_events=10)
    fill(service)
    service.kill()
    said = worked("doctor", "--data", tmp_path / "data")
    assert "no problems found" in said and "problem" not in said.replace("no problems found", "")


def test_a_model_that_goes_back_to_an_older_snapshot_is_named(damage: Callable[..., Path]) -> None:
    """Its line would tell that the newest is missing, and is damaged, too."""
    data = damage(
        "bare",
        f"UPDATE snapshot SET state = zeroblob(99) WHERE {NEWEST}",
        "UPDATE model SET digest = zeroblob(8) WHERE name = 'revealed'",
    )
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 1 and "discarded: what model" in ended.out


def test_a_directory_in_use_and_one_that_is_none(tmp_path: Path, service: Service) -> None:
    assert f"in use by process {service.pid}" in failed("doctor", "--data", service.data)
    assert "there is no journal" in failed("doctor", "--data", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("name", ["whole", "trimmed"])
@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (f"UPDATE snapshot SET state = x'ff00' WHERE {NEWEST}", "revealed: the snapshot after event"),
        (f"DELETE FROM outcome WHERE {MODEL} AND through = (SELECT max(seq) FROM snapshot WHERE {MODEL})",
         "retries get no response"),
        (f"UPDATE outcome SET body = x'00' WHERE {MODEL} AND through = (SELECT max(seq) FROM snapshot WHERE {MODEL})",
         "retries get no response"),
        (f"UPDATE model SET mistakes = mistakes + 1, digest = model_digest({MISTAKEN}) WHERE name = 'revealed'",
         "has mistakes"),
        ("UPDATE summarised SET through = 1000000", "counts of models refer to an event"),
        ("INSERT INTO pending VALUES ('x', 999, 1, seal_pending(x'00', 'x', 999, 1))",
         "1 pending predictions belong to models"),
        ("INSERT INTO snapshot VALUES (999, 1, x'00')", "1 snapshots belong to models"),
        ("INSERT INTO pending SELECT 'r29', model, at + 1, body FROM pending WHERE prediction_id = 'r20'",
         "is pending, but event"),
    ],
)  # fmt: skip
def test_what_can_be_made_anew_is_found_and_mended(
    damage: Callable[..., Path], name: str, statement: str, complaint: str
) -> None:
    data = damage(name, statement)
    events = all_events(data)
    ended = novikoff("doctor", "--data", data)
    assert ended.status == 1 and complaint in ended.out and "1 problem\n" in ended.out
    said = worked("doctor", "--data", data, "--repair")
    assert complaint in said and said.endswith("looking again\n" + said.split("looking again\n")[1])
    assert "no problems found" in said.split("looking again")[1]
    assert "no problems found" in worked("doctor", "--data", data)
    assert all_events(data) == events


def all_events(data: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(data / "journal.sqlite")
    rows = connection.execute("SELECT * FROM event ORDER BY seq").fetchall()
    connection.close()
    return rows


def test_a_mended_directory_serves_what_it_served(
    kept: Callable[[str], Path], damage: Callable[..., Path], tmp_path: Path, start: Callable[..., Service]
) -> None:
    data = damage(
        "whole",
        f"UPDATE snapshot SET state = x'ff00' WHERE {MODEL}",
        "DELETE FROM outcome",
        "UPDATE model SET revealed = 0",
    )
    worked("doctor", "--data", data, "--repair")
    sound = tmp_path / "sound"
    shutil.copytree(kept("whole"), sound)
    mended, expected = start(data), start(sound)
    for model in ("learned", "revealed"):
        assert mended.get(f"/models/{model}/weights") == expected.get(f"/models/{model}/weights")
    assert mended.get("/stats")["totals"] == expected.get("/stats")["totals"]
    assert mended.reveal("r7", EXAMPLES[7][1]) == expected.reveal("r7", EXAMPLES[7][1])


@pytest.mark.parametrize(
    ("name", "statement", "complaint"),
    [
        ("whole", f"UPDATE event SET body = x'00' WHERE {MODEL} AND seq = (SELECT max(seq) FROM event WHERE {MODEL})",
         "is damaged"),
        ("whole", f"DELETE FROM event WHERE {MODEL} AND prediction_id = 'r7'", "events are missing"),
        ("trimmed", f"DELETE FROM event WHERE {MODEL} AND prediction_id = 'r29'", "events are missing"),
        ("bare", f"UPDATE snapshot SET state = x'ff00' WHERE {MODEL}", "neither its first events nor a"),
        ("bare", f"UPDATE snapshot SET state = x'ff00' WHERE {NEWEST}", "cannot be read"),
        ("whole", f"UPDATE event SET model = 999 WHERE {MODEL}", "events belong to models that do not exist"),
        ("whole", "PRAGMA user_version = 99", "schema version 99"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_anew_is_found_and_left_alone(
    damage: Callable[..., Path], name: str, statement: str, complaint: str
) -> None:
    data = damage(name) if statement.startswith("PRAGMA") else damage(name, statement)
    if statement.startswith("PRAGMA"):
        connection = sqlite3.connect(data / "journal.sqlite")
        connection.execute(statement)
        connection.close()
    before = (data / "journal.sqlite").read_bytes()
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 1 and complaint in ended.out
    if "looking again" not in ended.out:
        assert (data / "journal.sqlite").read_bytes() == before


def test_a_snapshot_that_says_something_else_is_found_and_left_alone(damage: Callable[..., Path]) -> None:
    """One bit of a weight, sealed: readable and plausible. Clients have been served by it, so it is not dropped."""
    data = damage("whole")
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        life, seq, state = connection.execute(
            f"SELECT model, seq, state FROM snapshot WHERE {NEWEST}"
        ).fetchone()
        at = state.index(b"weights") if b"weights" in state else state.index(b"<f8")
        array = state.index(b"<f8", at) + 16
        changed = state[:array] + bytes([state[array] ^ 1]) + state[array + 1 : -SEAL_BYTES]
        sealed = seal_snapshot(changed, life, seq)
        connection.execute("UPDATE snapshot SET state = ? WHERE seq = ?", (sealed, seq))
        connection.commit()
    before = (data / "journal.sqlite").read_bytes()
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 1 and "is not what the events up to it make" in ended.out
    assert (data / "journal.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", ["whole", "trimmed"])
@pytest.mark.parametrize(
    ("statement", "given_up", "only_if_trimmed"),
    [
        (f"UPDATE pending SET body = x'00' WHERE {MODEL} AND at = (SELECT min(at) FROM pending)",
         "pending predictions that cannot be read: 'r0'", False),
        ("UPDATE model SET mistakes = mistakes + 5 WHERE name = 'revealed'", "the time up to which predictions", True),
        ("UPDATE model SET settings = x'00' WHERE name = 'revealed'", "the time up to which predictions", True),
        (f"UPDATE event SET body = x'00' WHERE {MODEL} AND seq = (SELECT max(seq) FROM snapshot WHERE {MODEL})",
         "the events of revealed up to", False),
        (f"DELETE FROM event WHERE {MODEL} AND seq = (SELECT max(seq) FROM snapshot WHERE {MODEL})",
         "the events of revealed up to", False),
    ],
)  # fmt: skip
def test_what_is_given_up_is_told_and_the_rest_is_served_as_before(
    served: Callable[[str], dict[str, Any]], damage: Callable[..., Path], start: Callable[..., Service],
    name: str, statement: str, given_up: str, only_if_trimmed: bool,
) -> None:  # fmt: skip
    data = damage(name, statement)
    ended = novikoff("doctor", "--data", data, "--repair")
    if only_if_trimmed and name == "whole":
        assert ended.status == 0 and "given up" not in ended.out, ended.out
    else:
        assert ended.status == 1 and f"discarded: {given_up}" in ended.out, ended.out
    assert "no problems found" in worked("doctor", "--data", data)
    mended = start(data)
    assert {path: mended.get(path) for path in SERVED} == served(name)


def test_a_damaged_page_of_the_file_is_found(damage: Callable[..., Path]) -> None:
    data = damage("whole")
    file = data / "journal.sqlite"
    content = bytearray(file.read_bytes())
    content[3 * 8192 : 3 * 8192 + 200] = b"\xff" * 200
    file.write_bytes(content)
    ended = novikoff("doctor", "--data", data)
    assert ended.status == 1 and "problem file: " in ended.out


def test_repairing_the_numbering_gives_no_number_again_that_a_deleted_model_had(
    damage: Callable[..., Path],
) -> None:
    data = damage("whole", "UPDATE journal SET digest = zeroblob(8)")

    def numbered() -> list[tuple[int]]:
        with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
            return connection.execute("SELECT numbered FROM journal").fetchall()

    before = numbered()
    worked("doctor", "--data", data, "--repair")
    assert numbered() == before
