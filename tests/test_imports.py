"""A process imports what it needs: every module takes time at its start, and memory after that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown import ROOT
from tests.support.service_process import Service

pytestmark = pytest.mark.slow

LIST_AT_THE_END = """
import atexit, pathlib, sys

def write():
    pathlib.Path({folder!r}, sys.orig_argv[-1].rpartition(".")[2]).write_text("\\n".join(sys.modules))

atexit.register(write)
"""

NOT_WHILE_SERVING = (
    *("httpx", "rich", "novikoff.calls", "service.commands.replay", "service.commands.top"),  # other commands
    *("service.journal.jetstream", "nats", "opentelemetry.sdk"),  # other settings
    *("fastapi_offline", "numpy.random", "onnx", "pyarrow"),  # requests that are seldom made
    *("pandas", "pydantic.v1"),  # never
)
NOT_IN_A_CHILD = ("fastapi", "httpx", "pydantic", "rich", "starlette", "typer", "uvicorn", "service.web")


def among(modules: list[str], unwanted: tuple[str, ...]) -> set[str]:
    """Those of them that were imported, or of which a part was."""
    return {name for name in unwanted for module in modules if f"{module}.".startswith(f"{name}.")}


def test_neither_the_service_nor_its_writer_imports_what_it_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    (tmp_path / "sitecustomize.py").write_text(LIST_AT_THE_END.format(folder=str(lists)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    served = Service(tmp_path / "data").start(cold=True)
    try:
        assert served.client.get("/readyz").status_code == 200
        served.learn("m", [1.0, 2.0], 1)
        assert served.stop() == 0
    finally:
        served.close()
    writer = (lists / "writer_process").read_text().split()
    (service,) = (path.read_text().split() for path in lists.iterdir() if path.name != "writer_process")
    assert "service.app" in service and "service.journal.sqlite.writing" in writer
    assert among(service, NOT_WHILE_SERVING) == set()
    assert (
        among(
            writer,
            (*NOT_IN_A_CHILD, "asyncio", "novikoff.schemas", "numpy", "service.engine", "service.learning"),
        )
        == set()
    )


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("service.engine.jobs.fit_process", (*NOT_IN_A_CHILD, "asyncio")),
        ("service.engine.replay.play_process", (*NOT_IN_A_CHILD, "asyncio")),
        ("service.engine.transfer.importing", NOT_IN_A_CHILD),
    ],
)
def test_processes_that_work_for_the_service_import_no_part_of_its_web(
    module: str, unwanted: tuple[str, ...]
) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert module in modules
    assert among(modules, unwanted) == set()


@pytest.mark.parametrize(
    "shared", ["import novikoff.errors, novikoff.schemas", "from novikoff import Prediction"]
)
def test_the_shapes_and_errors_of_the_clients_import_msgspec_only(shared: str) -> None:
    of_msgspec = {*loaded_by("import msgspec")}
    for code in ("import novikoff", f"import msgspec; {shared}"):
        new = {name.split(".")[0] for name in loaded_by(code) if name not in of_msgspec}
        assert new - sys.stdlib_module_names == {"novikoff"}


def test_a_client_imports_no_part_of_the_service() -> None:
    modules = loaded_by("import novikoff; novikoff.Client, novikoff.AsyncClient, novikoff.RemoteModel")
    assert {"novikoff.client", "novikoff.async_client", "novikoff.remote_model", "httpx"} <= {*modules}
    unwanted = ("fastapi", "mmh3", "numpy", "pydantic", "service", "starlette", "typer", "uvicorn")
    assert among(modules, unwanted) == set()


def loaded_by(code: str) -> list[str]:
    """What a fresh process has imported when it has done this, beside what it begins with."""
    code = f"import sys; before = {{*sys.modules}}; {code}; print(*sys.modules.keys() - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()
