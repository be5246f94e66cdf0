"""Exports of large models for scikit-learn and ONNX: little memory, the loop has its turns, and nothing is lost."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.support.loop_pauses import Turns, in_loop, shortest_pause, watched
from tests.support.process_usage import peak_bytes, restart_peak
from tests.support.service_process import Service, problem_of

pytestmark = pytest.mark.thorough

MEBIBYTE = 1_048_576
DIMENSION = 65_536
LABELS = list(range(20))
MANY = list(range(40))
WEIGHTS_BYTES = 8 * DIMENSION * len(LABELS)
JSON = (b"content-type", b"application/json")


def point(seed: int) -> list[float]:
    return [*np.random.default_rng(seed).integers(-4, 5, size=DIMENSION).astype(float).tolist()]


@pytest.mark.parametrize("form", ["sklearn", "onnx"])
def test_an_export_takes_little_more_than_a_copy_of_the_weights(
    start: Callable[..., Service], form: str
) -> None:
    service = start()
    service.create("wide", labels=LABELS, features={"kind": "dense", "dimension": DIMENSION})
    for label in LABELS:
        service.learn("wide", point(label), label)
    service.create("small")
    for label in (1, -1):
        service.learn("small", [1.0, 2.0], label)
    service.client.get(f"/models/small/export?format={form}")  # the library is imported by now
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    read = 0
    with service.client.stream("GET", f"/models/wide/export?format={form}") as answer:
        assert answer.status_code == 200
        for part in answer.iter_bytes():
            read += len(part)
    assert read > 4 * DIMENSION * len(LABELS)
    # It was 5 times as much for scikit-learn and 10 times for ONNX: lists of all numbers, and the whole text.
    assert peak_bytes(service.process.pid) - before < 2 * WEIGHTS_BYTES


@pytest.mark.parametrize("form", ["sklearn", "onnx"])
def test_a_model_that_cannot_be_exported_is_refused_before_it_is_copied(
    start: Callable[..., Service], form: str
) -> None:
    service = start()
    service.create("wide", features={"kind": "hashed", "bits": 23})
    service.learn("wide", {"word": 1.0}, -1)
    service.create("few", features={"kind": "hashed", "bits": 8})
    service.client.get(f"/models/few/export?format={form}")
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    answer = service.client.get(f"/models/wide/export?format={form}")
    assert problem_of(answer) == (422, "invalid-request") and "hashed" in answer.text
    assert peak_bytes(service.process.pid) - before < 16 * MEBIBYTE, "a copy takes 64"


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"], [-1, 1]])
def test_a_large_export_says_what_the_model_says(
    start: Callable[..., Service], labels: list[Any], standardize: bool
) -> None:
    service = start()
    features = {"kind": "dense", "dimension": DIMENSION, "standardize": standardize}
    service.create("wide", labels=labels, multiclass="one_vs_all", features=features)
    for at in range(6):
        service.learn("wide", point(at), labels[at % len(labels)])
    linear = service.get("/models/wide/export?format=sklearn")
    asked = service.client.get("/models/wide/export?format=onnx")
    assert int(asked.headers["content-length"]) == len(asked.content)
    onnx.checker.check_model(onnx.load_from_string(asked.content), full_check=True)
    session = onnxruntime.InferenceSession(asked.content, providers=["CPUExecutionProvider"])
    for seed in (1, 20, 21):
        served = service.predict("wide", point(seed))
        scores = np.array(linear["coef_"]) @ point(seed) + linear["intercept_"]
        chosen = int(scores[0] > 0) if len(labels) == 2 else int(scores.argmax())
        assert linear["classes_"][chosen] == served["label"]
        label, told = session.run(None, {"features": np.array([point(seed)], np.float32)})
        assert label[0] == served["label"]
        assert told[0].max() == pytest.approx(
            float(np.abs(scores).max()) if len(labels) == 2 else scores.max(), rel=1e-3
        )
    at_once = service.client.get(
        f"/models/wide/export?format=onnx&at={service.get('/models/wide')['version']}"
    )
    assert at_once.content == asked.content


@pytest.mark.parametrize("form", ["sklearn", "onnx"])
async def test_the_loop_has_its_turns_while_an_export_is_made(tmp_path: Path, form: str) -> None:
    async with in_loop(tmp_path) as service:
        new = {"model": "wide", "labels": MANY, "features": {"kind": "dense", "dimension": DIMENSION}}
        await service.post("/models", [json.dumps(new).encode()], JSON)
        for label in MANY:
            body = json.dumps({"model": "wide", "features": point(label), "label": label}).encode()
            status, *_ = await service.post("/learn", [body], JSON)
            assert status == 200

        async def asked(_: int) -> Turns:
            async with watched() as turns:
                await asyncio.sleep(0)  # or what is done before the first turn is not seen
                told = await service.get("/models/wide/export", f"format={form}")
                await asyncio.sleep(0)
            assert len(told) > 4 * DIMENSION * len(MANY)
            return turns

        longest = await shortest_pause(asked, 0.05)
        assert longest < 0.05, "it was a quarter of a second for scikit-learn, a third for ONNX"
