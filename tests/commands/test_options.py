"""Where a command finds its service and its key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.examples import make_examples, write
from tests.commands.running import failed, worked
from tests.support.api_keys import Holder
from tests.support.service_process import Service


@pytest.fixture(scope="module")
def holder() -> Holder:
    return Holder("owner", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, holder: Holder) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("guarded") / "data", api_keys=holder.line).start()
    yield service
    service.close()


def test_the_environment_says_to_all_commands_where_the_service_is_and_with_which_key(
    guarded: Service, holder: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOVIKOFF_URL", guarded.url)
    rows = write(tmp_path, "table.csv", make_examples(5))
    assert "(unauthorized, 401)" in failed("top", "--once")
    monkeypatch.setenv("NOVIKOFF_KEY", holder.secret)
    assert "new model" in worked("replay", rows, "--model", "m")
    assert "1 model, 5 rounds" in worked("top", "--once")
    worked("export", "m", "--to", tmp_path / "m.json")
    worked("history", "m", "-o", tmp_path / "m.ndjson")
    assert len((tmp_path / "m.ndjson").read_text().splitlines()) == 5
    kept = worked("replay", rows, "--model", "m", "--data", tmp_path / "data")
    assert "new model" in kept  # there, not at the address of the environment


def test_a_key_may_be_in_a_file_and_what_a_command_is_told_comes_first(
    guarded: Service, holder: Holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, wrong = tmp_path / "key", tmp_path / "wrong"
    file.write_text(f"{holder.secret}\n")
    wrong.write_text("nvk_wrong\n")
    look = ("top", "--once", "--url", guarded.url)
    monkeypatch.setenv("NOVIKOFF_KEY_FILE", str(file))
    assert "model" in worked(*look)
    monkeypatch.setenv("NOVIKOFF_KEY", "nvk_wrong")
    assert "401" in failed(*look)
    assert "model" in worked(*look, "--key-file", file)
    assert "model" in worked(*look, "--key-file", wrong, "--key", holder.secret)
    wrong.write_text("")
    assert "is empty: it must contain a key" in failed(*look, "--key-file", wrong)
    assert "No such file" in failed(*look, "--key-file", tmp_path / "none")


def test_the_help_says_who_sees_a_key_and_a_service_starts_beside_the_variables_of_clients(
    guarded: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "can see it here, with ps" in " ".join(worked("top", "--help").replace("│", " ").split())
    monkeypatch.setenv("NOVIKOFF_KEY", "nvk_any")
    rows = write(tmp_path, "table.csv", make_examples(5))
    assert "new model" in worked("replay", rows, "--model", "m")  # it runs a service of its own
