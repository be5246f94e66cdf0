"""The examples in the README and docs/ are run, and answer what the documents say."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.markdown import PAGES, README, ROOT, Block, blocks_of
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.slow

ANYTHING = "…"


def fits(actual: Any, documented: Any) -> bool:
    """Whether an answer is as documented: … stands for anything, and an answer may have more fields.

    >>> fits({"a": [1, 2.0], "b": 3}, {"a": [1, 2]}), fits({"a": "x"}, {"a": "…"}), fits([1], [1, 2])
    (True, True, False)
    """
    if documented == ANYTHING:
        return True
    if isinstance(documented, dict) and isinstance(actual, dict):
        return all(key in actual and fits(actual[key], value) for key, value in documented.items())
    if isinstance(documented, list) and isinstance(actual, list):
        return len(actual) == len(documented) and all(map(fits, actual, documented))
    return isinstance(actual, bool) == isinstance(documented, bool) and bool(actual == documented)


def last_document(output: str) -> Any:
    """The last of the JSON documents that a few commands wrote one after the other.

    >>> last_document('{"a": 1}{"b": 2}')
    {'b': 2}
    """
    document, output = None, output.strip()
    while output:
        document, end = json.JSONDecoder().raw_decode(output)
        output = output[end:].strip()
    return document


def is_run(block: Block) -> bool:
    """Whether an example is for a running service; the rest are about make, docker and the command line."""
    return block.language == "python" or (
        block.language == "sh" and not re.match(r"make |docker |.*novikoff serve", block.text)
    )


def stand_in(folder: Path) -> Path:
    """A folder with a curl of our own, for a machine that has none."""
    script = folder / "curl"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "tests" / "support" / "curl.py"}" "$@"\n')
    script.chmod(0o755)
    return folder


def run_python(text: str) -> str:
    """What a program prints; in this process, which has imported most of what they need."""
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(text, "the example", "exec"), {"__name__": "__main__"})
    return said.getvalue()


def run_shell(text: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_do_what_the_documents_say(
    tmp_path: Path, start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A reader would wait for the first job, and is ready though the machine had something else to do for a while.
    service = start(jobs_max=16, loop_pause_seconds_max=PATIENCE_SECONDS)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # novikoff, and a Python that has it
    if shutil.which("curl") is None:
        path = f"{stand_in(tmp_path)}:{path}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)  # where the service has its `data`
    answered = 0
    for page in PAGES:
        for block, after in pairwise([*blocks_of(page.read_text()), Block("", "", 0)]):
            if not is_run(block):
                continue
            text = re.sub(r"(?<=localhost|127\.0\.0\.1):8000", f":{service.client.base_url.port}", block.text)
            where = f"{page.name}:{block.line}\n{text}"
            try:
                said = (run_shell if block.language == "sh" else run_python)(text)
            except Exception as error:
                error.add_note(where)
                raise
            if after.language == "json":
                as_documented = fits(last_document(said), json.loads(after.text))
                assert as_documented, f"{where}\n{said}\nis not\n{after.text}"
                answered += 1
            elif after.language == "text":
                assert said.rstrip() == after.text, f"{where}\n{said}"
                answered += 1
    assert answered >= 5
    assert service.stop() == 0


def test_the_services_that_the_documents_start_start_and_stop(tmp_path: Path) -> None:
    blocks = [(page, block) for page in PAGES for block in blocks_of(page.read_text())]
    commands = [
        (page, block)
        for page, block in blocks
        if block.language == "sh" and re.match(r".*novikoff serve", block.text)
    ]
    assert len(commands) >= 2
    for page, block in commands:
        text = re.sub(r"--port \d+", "--port 0", block.text).replace(
            ".venv/bin/", f"{Path(sys.executable).parent}/"
        )
        start_and_stop(text, f"{page.name}:{block.line}", tmp_path)


def start_and_stop(command: str, where: str, folder: Path) -> None:
    environment = os.environ | {"NOVIKOFF_DATA": str(folder / "data")}
    log = folder / "log"
    with log.open("w") as written:
        service = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=environment, stderr=written, start_new_session=True
        )
    try:
        eventually(lambda: "running on" in log.read_text() or service.poll() is not None, otherwise=log)
        assert service.poll() is None, f"{where}\n{log.read_text()}"
    finally:
        os.killpg(service.pid, signal.SIGTERM)
        service.wait(PATIENCE_SECONDS)
    assert service.returncode == 0


def test_the_make_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= targets, page.name
    assert {"serve", "test"} <= set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE))
