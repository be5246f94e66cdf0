"""The Dockerfile, and what the compose file makes of it: pinned, in stages, confined, and checked for its health."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from service.settings import Settings
from tests.support.service_process import Service
from tests.test_tidy import PROJECT, ROOT, declared, pins

pytestmark = pytest.mark.slow


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, comments dropped and lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last(word: str) -> str:
    """The argument of an instruction in the final stage."""
    stages = instructions()
    start = max(i for i, (instruction, _) in enumerate(stages) if instruction == "FROM")
    found = [rest for instruction, rest in stages[start:] if instruction == word]
    assert found, f"no {word} in the final stage"
    return found[-1]


def compose() -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
    return document


def test_the_image_is_built_in_stages_from_a_slim_python_that_we_support() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    (base,) = [rest.removeprefix("BASE=") for word, rest in instructions() if rest.startswith("BASE=")]
    version = re.fullmatch(r"python:(3\.\d+)-slim-[a-z]+", base)
    assert version and Requirement(f"python{PROJECT['requires-python']}").specifier.contains(version[1])


def test_the_image_installs_dependencies_before_it_has_the_source() -> None:
    lines = [f"{word} {rest}" for word, rest in instructions()]
    (installed,) = [i for i, line in enumerate(lines) if "--wheel-dir /needed" in line]
    (copied,) = [i for i, line in enumerate(lines) if line.startswith("COPY service ")]
    assert installed < copied


def test_the_wheel_of_the_image_is_built_with_pinned_packages() -> None:
    pins = (ROOT / "deploy" / "build-requirements.txt").read_text()
    named = re.findall(r"^([a-z-]+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}$", pins, re.MULTILINE)
    assert named and len(named) == pins.count("==") and "hatchling" in named
    assert any("--require-hashes --requirement build-requirements.txt" in rest for _, rest in instructions())
    assert any("--no-build-isolation" in rest for _, rest in instructions())


def test_the_image_runs_unprivileged_and_gets_its_signals() -> None:
    user, _, group = last("USER").partition(":")
    assert int(user) > 0 and int(group) > 0
    assert json.loads(last("ENTRYPOINT")) == ["novikoff"]
    assert json.loads(last("CMD"))[0] == "serve"
    assert last("STOPSIGNAL") == "SIGTERM"
    assert last("VOLUME") == "/data"
    assert "NOVIKOFF_DATA=/data" in last("ENV") and "NOVIKOFF_HOST=0.0.0.0" in last("ENV")


def test_the_image_is_built_from_what_dockerignore_lets_through() -> None:
    let_through = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert copied == let_through
    assert all((ROOT / path).exists() for path in copied)


def test_compose_confines_the_service_and_gives_it_time_to_stop() -> None:
    service = compose()["services"]["novikoff"]
    assert service["read_only"] and service["tmpfs"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service
    assert {"cpus", "memory", "pids"} <= service["deploy"]["resources"]["limits"].keys()
    assert service["restart"] == "unless-stopped"
    assert service["ports"] == ["${PUBLISH:-127.0.0.1:8000}:8000"]
    (volume,) = service["volumes"]
    assert volume.split(":")[0] in compose()["volumes"] and volume.endswith(":/data")
    grace = re.fullmatch(r"(\d+)s", service["stop_grace_period"])
    assert grace and int(grace[1]) >= Settings.model_fields["shutdown_seconds"].default + 5


def test_the_image_installs_every_extra_by_version_and_hash() -> None:
    installed: dict[str, str] = {}
    for name in (
        "requirements.txt",
        "requirements-arrow.txt",
        "requirements-onnx.txt",
        "requirements-otel.txt",
    ):
        text = (ROOT / "deploy" / name).read_text()
        installed |= re.findall(
            r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE
        )
    known = {canonicalize_name(name): version for name, version in pins().items()}
    assert {name for name, version in installed.items() if version != known.get(name)} == set()
    assert {canonicalize_name(requirement.name) for requirement in declared(dev=False)} <= installed.keys()
    (default,) = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("EXTRAS=")]
    assert default == 'EXTRAS="arrow onnx otel"'


def health_checks() -> dict[str, list[str]]:
    return {
        "Dockerfile": json.loads(last("HEALTHCHECK").split("CMD ", 1)[1]),
        "docker-compose.yml": compose()["services"]["novikoff"]["healthcheck"]["test"][1:],
    }


@pytest.mark.parametrize("where", ["Dockerfile", "docker-compose.yml"])
def test_the_health_check_tells_life_from_death(where: str, start: Callable[..., Service]) -> None:
    service = start()
    program, *arguments = health_checks()[where]
    assert program == "healthy" and any(rest.endswith("/usr/local/bin/healthy") for _, rest in instructions())
    command = [sys.executable, "-IS", ROOT / "deploy" / "healthy.py", *arguments]
    environment = os.environ | {"NOVIKOFF_PORT": str(service.client.base_url.port)}

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert check().returncode == 0
    service.process.send_signal(signal.SIGSTOP)
    hanging = check()
    service.process.send_signal(signal.SIGCONT)
    service.stop()
    refused = check()
    assert [ended.returncode for ended in (hanging, refused)] == [1, 1]
    assert all(ended.stderr.startswith("no answer: ") for ended in (hanging, refused))
