"""`novikoff export` and `novikoff import`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

from tests.commands.examples import make_examples
from tests.commands.running import failed, worked
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
    assert "model-exists" in failed("import", file, "--url", service.url)
    file.write_text(text.replace("-1.0", "-2.0", 1))
    assert "damaged" in failed("import", file, "--url", service.url, "--model", f"{name}.copy")
    file.write_text("not JSON")
    assert "is not an export" in failed("import", file, "--url", service.url)
    file.write_text("{}")
    assert "missing required field `name`" in failed("import", file, "--url", service.url)
    assert "cannot be read" in failed("import", tmp_path / "none.json", "--url", service.url)
