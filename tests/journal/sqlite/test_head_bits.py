"""Every bit of the head of the file, turned over: the journal is opened as it was, or refused in words."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.errors import StartError
from service.events import ModelCreated, PredictionsExpired
from service.journal.sqlite.directory import open_directory
from tests.journal.journals import sqlite_at

pytestmark = pytest.mark.thorough

HEAD_BYTES = 100


@pytest.mark.parametrize("has_log", [False, True], ids=["stopped", "killed"])
async def test_a_turned_bit_of_the_head_is_harmless_or_told(tmp_path: Path, has_log: bool) -> None:
    made, copy = tmp_path / "made", tmp_path / "copy"
    made.mkdir()
    journal = sqlite_at(made)
    await journal.open(lambda seq, event: None)
    await journal.append(ModelCreated("m", 1, {}))
    await journal.append(PredictionsExpired("m", 2, 0, 0), 1)
    if not has_log:
        await journal.close()
    shutil.copytree(made, tmp_path / "left")
    if has_log:
        await journal.close()
    refused = 0
    for place in range(HEAD_BYTES * 8):
        shutil.copytree(tmp_path / "left", copy)
        file = copy / "journal.sqlite"
        with file.open("rb+") as opened:
            opened.seek(place // 8)
            (byte,) = opened.read(1)
            opened.seek(place // 8)
            opened.write(bytes([byte ^ 1 << place % 8]))
        try:
            open_directory(file, "power")
        except StartError:
            refused += 1
        else:
            with closing(sqlite3.connect(file)) as connection:
                assert connection.execute("SELECT count(*) FROM event").fetchone() == (2,), place
        shutil.rmtree(copy)
    assert refused, "some of them are needed to read it"
