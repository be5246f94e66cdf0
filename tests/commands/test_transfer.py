"""`novikoff export`, `import` and `history`: models and rounds as files."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands.examples import make_examples
from tests.commands.running import failed, novikoff, worked
from tests.support.service_process import Service


def test_a_model_moves_to_another_service_to_the_bit(
    tmp_path: Path, service: Service, name: str, start: Callable[..., Service]
) -> None:
    for features, label in make_examples(20):
        service.learn(name, features, label)
    file = tmp_path / "model.json"
    worked("export", name, "--url", service.url, "--to", file)
    other = start()
    worked("import", file, "--url", other.url)
    worked("import", file, "--url", other.url, "--model", f"{name}.copy")
    for copy in (name, f"{name}.copy"):
        assert (
            other.get(f"/models/{copy}/weights")["classes"]
            == service.get(f"/models/{name}/weights")["classes"]
        )
        assert other.stats(copy)["curve"] == service.stats(name)["curve"]
        assert (
            other.predict(copy, [0.1, 0.2, 0.3])["score"] == service.predict(name, [0.1, 0.2, 0.3])["score"]
        )
    exported, again = json.loads(file.read_text()), json.loads(worked("export", name, "--url", other.url))
    for part in ("settings", "classifier", "features", "statistics"):
        assert again[part] == exported[part]


def test_the_arrays_of_scikit_learn(service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], -1)
    exported = json.loads(worked("export", name, "--url", service.url, "--format", "sklearn"))
    assert exported == {"coef_": [[-1.0, -2.0]], "intercept_": [-1.0], "classes_": [-1, 1]}


def test_a_file_for_runtimes_of_onnx(tmp_path: Path, service: Service, name: str) -> None:
    service.learn(name, [1.0, 2.0], -1)
    file = tmp_path / "model.onnx"
    worked("export", name, "--url", service.url, "--format", "onnx", "--to", file)
    session = onnxruntime.InferenceSession(file)
    examples = np.array([[1.0, 1.0], [-1.0, -1.0]], dtype=np.float32)
    labels = session.run(None, {session.get_inputs()[0].name: examples})[0]
    assert labels.tolist() == [service.predict(name, row)["label"] for row in examples.tolist()]


def test_what_cannot_be_moved_is_told(tmp_path: Path, service: Service, name: str) -> None:
    assert "unknown-model" in failed("export", name, "--url", service.url)
    service.learn(name, [1.0], -1)
    text = worked("export", name, "--url", service.url)
    file = tmp_path / "model.json"
    file.write_text(text)
    assert "choose another name with --model" in failed("import", file, "--url", service.url)
    file.write_text(text.replace("-1.0", "-2.0", 1))
    assert "damaged" in failed("import", file, "--url", service.url, "--model", f"{name}.copy")
    file.write_text("not JSON")
    assert "is not an export" in failed("import", file, "--url", service.url)
    file.write_text("{}")
    assert "missing required field `name`" in failed("import", file, "--url", service.url)
    assert "cannot be read" in failed("import", tmp_path / "none.json", "--url", service.url)


@pytest.fixture
def taught(service: Service, name: str) -> Service:
    for features, label in make_examples(30):
        service.learn(name, features, label)
    return service


def versions_in(file: Path) -> list[int]:
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
    assert ended.status == 0 and ended.err == f"{name}: {file.stat().st_size:,} bytes written to {file}\n"
    assert versions_in(file) == list(range(1, 31))
    novikoff("history", name, "-o", file, "--url", taught.url, "--from-version", 7, "--to-version", 9)
    assert versions_in(file) == [7, 8, 9]
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, taught: Service, name: str) -> None:
    assert "must end with" in failed("history", name, "-o", tmp_path / "rounds.csv", "--url", taught.url)
    assert "unknown-model" in failed("history", "nobody", "-o", tmp_path / "r.arrow", "--url", taught.url)
    wrong = failed("history", name, "-o", tmp_path / "r.parquet", "--url", taught.url, "--since", "now")
    assert "since" in wrong
    assert not list(tmp_path.iterdir())
