"""`novikoff history`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands.examples import make_examples
from tests.commands.running import failed, novikoff
from tests.support.service_process import Service


@pytest.fixture
def taught(service: Service, name: str) -> Service:
    for features, label in make_examples(30):
        service.learn(name, features, label)
    return service


def read(file: Path) -> list[int]:
    """The versions in a file."""
    if file.suffix == ".parquet":
        return pq.read_table(file)["version"].to_pylist()
    if file.suffix == ".arrow":
        return pa.ipc.open_file(file).read_all()["version"].to_pylist()
    return [json.loads(line)["version"] for line in file.read_text().splitlines()]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ndjson", "jsonl"])
def test_the_rounds_of_a_model_become_a_file(tmp_path: Path, taught: Service, name: str, ending: str) -> None:
    file = tmp_path / f"rounds.{ending}"
    ended = novikoff("history", name, "-o", file, "--url", taught.url)
    assert ended.status == 0 and ended.err == f"{name}: 30 rounds written to {file}\n"
    assert read(file) == list(range(1, 31))
    novikoff("history", name, "-o", file, "--url", taught.url, "--from-version", 7, "--to-version", 9)
    assert read(file) == [7, 8, 9]
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, taught: Service, name: str) -> None:
    assert "must end with" in failed("history", name, "-o", tmp_path / "rounds.csv", "--url", taught.url)
    assert "unknown-model" in failed("history", "nobody", "-o", tmp_path / "r.arrow", "--url", taught.url)
    wrong = failed("history", name, "-o", tmp_path / "r.parquet", "--url", taught.url, "--since", "now")
    assert "since" in wrong
    assert not list(tmp_path.iterdir())
