"""The commands of docs/how-to.md for containers, run one after the other as they stand there."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.engine import ENVIRONMENT, IMAGE, Container, podman
from tests.support.markdown import DOCS, blocks_of, section
from tests.support.ports import free_ports

SECTION = section("Run in a container", DOCS["how-to.md"])
BLOCKS = [block.text for block in blocks_of(SECTION) if block.language == "sh"]
COMMANDS = [text for text in BLOCKS if not text.startswith("docker build ")]


@pytest.fixture
def port() -> Iterator[int]:
    (free,) = free_ports(1)
    yield free
    podman("rm", "--force", "--time", "0", "novikoff", check=False)
    podman("volume", "rm", "--force", "novikoff", "restored", check=False)


def test_run_backup_restore_doctor_and_packing(tmp_path: Path, port: int) -> None:
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text('#!/bin/sh\nexec podman "$@"\n')
    docker.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

    def run(commands: str) -> str:
        shell = ["bash", "-euo", "pipefail", "-c", commands.replace("127.0.0.1:8000", f"127.0.0.1:{port}")]
        environment = os.environ | ENVIRONMENT | {"PATH": path}
        ended = subprocess.run(
            shell, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, f"{commands}: {ended.stdout} {ended.stderr}"
        return ended.stdout

    start, backup, restore, doctor = COMMANDS
    container = Container("novikoff", port)
    try:
        assert re.search(r" novikoff:\S+$", start) and IMAGE.endswith(start.split()[-1])
        run(start)
        learned = {"model": "kept", "features": [1.0], "label": 1}
        assert container.until_ready().client.post("/learn", json=learned).status_code == 200
        run(backup)
        assert (tmp_path / "backup.sqlite").stat().st_size > 0
        assert "restored to /data" in run(restore)
        assert "no problems found" in run(doctor)
        assert container.until_ready().client.get("/stats/kept").json()["rounds"]["revealed"] == 1
    finally:
        container.close()
    restored = f"docker run --rm --volume restored:/data {start.split()[-1]} doctor --data /data"
    assert "1 models" in run(restored)
