"""The first page of a journal that an older version has made: its tables are not where a new journal has them."""

import shutil
from pathlib import Path

import pytest

from service.journal.sqlite.identity import open_directory
from service.journal.sqlite.roots import file_beside
from tests.commands.repaired import JOURNAL, PAGE_BYTES, content_of
from tests.commands.running import novikoff
from tests.golden.archives import FILES, unpack

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", params=["stopped", "killed"])
def migrated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of 0.1.0 that this version has opened once."""
    data = unpack(FILES / f"{request.param}.tar.xz", tmp_path_factory.mktemp(request.param) / "data")
    open_directory(data / JOURNAL, "power")
    return data


def damage(data: Path, how: str) -> bytes:
    """What the file is then."""
    content = bytearray((data / JOURNAL).read_bytes())
    if how == "zeros":
        content[:PAGE_BYTES] = bytes(PAGE_BYTES)
    else:
        at = {"head": 104, "page size": 16, "application": 68, "version": 63}.get(how)
        content[at if at is not None else content.index(how.encode()) + 3] ^= 4
    (data / JOURNAL).write_bytes(content)
    return bytes(content)


@pytest.mark.parametrize("how", ["zeros", "head", "page size", "application", "version", "previous"])
def test_the_first_page_of_a_migrated_journal_costs_nothing(migrated: Path, tmp_path: Path, how: str) -> None:
    truth = content_of(migrated)
    assert truth.events and truth.pending and None not in truth.models.values()
    data = Path(shutil.copytree(migrated, tmp_path / "data"))
    before = damage(data, how)
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 0, ended
    assert content_of(data) == truth
    assert (data / f"{JOURNAL}.damaged").read_bytes() == before
    open_directory(data / JOURNAL, "power")
    assert not file_beside(data / JOURNAL).exists(), "the repaired one is as a new one is made"


def test_a_note_of_the_file_before_does_not_mislead(migrated: Path, tmp_path: Path) -> None:
    """As if a repair had been killed when the new file was in its place, and its first page is damaged now."""
    data = Path(shutil.copytree(migrated, tmp_path / "data"))
    truth, note = content_of(migrated), file_beside(data / JOURNAL).read_bytes()
    damage(data, "zeros")
    assert novikoff("doctor", "--data", data, "--repair").status == 0
    file_beside(data / JOURNAL).write_bytes(note)
    damage(data, "zeros")
    assert novikoff("doctor", "--data", data, "--repair").status == 0
    assert content_of(data) == truth


@pytest.mark.parametrize("migrated", ["killed"], indirect=True)  # the smaller one
@pytest.mark.parametrize("note", [None, b"", b"damaged for sure"])
def test_without_the_note_it_is_refused_and_left_as_it_is(
    migrated: Path, tmp_path: Path, note: bytes | None
) -> None:
    data = Path(shutil.copytree(migrated, tmp_path / "data"))
    if note is None:
        file_beside(data / JOURNAL).unlink()
    else:
        file_beside(data / JOURNAL).write_bytes(note)
    before = damage(data, "zeros")
    ended = novikoff("doctor", "--data", data, "--repair")
    assert ended.status == 1 and "nothing was changed: its first page is damaged" in ended.err, ended
    assert "an older version has made this journal" in ended.err and "Restore a backup" in ended.err
    assert (data / JOURNAL).read_bytes() == before
    assert not list(data.glob("*.new*")) and not list(data.glob("*.damaged*"))


def test_a_new_journal_needs_no_note(tmp_path: Path) -> None:
    open_directory(tmp_path / JOURNAL, "power")
    assert not file_beside(tmp_path / JOURNAL).exists()
