"""The container's command, run without the container: whom it lets in."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.forking import environment
from tests.holders import Holder
from tests.pages import ROOT
from tests.running import Service

Start = Callable[..., Service]


def command(publish: str) -> list[str]:
    """What compose would run, with `PUBLISH` set to this."""
    service = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]["novikoff"]
    shown: str = re.sub(r"\$\{PUBLISH:\+([^}]*)\}", r"\1" if publish else "", service["command"])
    return shown.split()


def begin(data: Path, publish: str, **settings: str) -> tuple[int | None, str]:
    """The status that it ended with, None if it runs; and the first line that it said."""
    image = {"host": "0.0.0.0", "port": 0, "data": data}
    process = subprocess.Popen(
        [sys.executable, "-m", "service", *command(publish)],
        env=environment(**image, **settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if "running on" in line:
            return None, line
        return process.wait(30), line
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


@pytest.mark.parametrize("publish", ["", "0.0.0.0:8000"])
def test_keys_are_needed_as_soon_as_others_can_reach_it(tmp_path: Path, publish: str) -> None:
    status, said = begin(tmp_path / "without", publish)
    assert (status, "access=everybody" in said) == ((2, False) if publish else (None, True)), said
    status, said = begin(tmp_path / "with", publish, api_keys=Holder("a", "read").line)
    assert status is None and "access=keys" in said


def test_every_service_of_the_compose_file_is_confined() -> None:
    for name, service in YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"].items():
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service, name
        assert all(
            port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1:", "${PUBLISH_CLUSTER:-127.0.0.1:"))
            for port in service.get("ports", ())
        ), name
