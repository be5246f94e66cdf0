"""The tree is tidy: small files with plain names, one way of importing, exact pins, a container that is safe to run."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from service.settings import Settings
from tests.running import Service

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

LINES_MAX = 300
TOP_LEVEL = {
    ".ci", ".dockerignore", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile",
    "README.md", "SECURITY.md", "bench", "constraints.txt", "deploy", "docker-compose.yml", "docs", "examples",
    "monitoring",
    "pyproject.toml", "service", "tests",
}  # fmt: skip
COMES_WITH = {"starlette": "fastapi", "pydantic-core": "pydantic"}
"""What we import though another dependency brings it, in the version that suits that one."""


def files() -> Iterator[Path]:
    """Every file of the tree that git would not ignore, relative to its root."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]

    def is_ignored(path: Path) -> bool:
        at_top = f"/{path.relative_to(ROOT)}"
        return path.name == ".git" or any(fnmatch(path.name, i) or fnmatch(at_top, i) for i in ignored)

    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not is_ignored(Path(folder, name))]
        yield from (path.relative_to(ROOT) for name in names if not is_ignored(path := Path(folder, name)))


FILES = sorted(files())
MODULES = [path for path in FILES if path.suffix in (".py", ".js")]
TEXTS = {
    path: (ROOT / path).read_text(errors="ignore") for path in FILES if path.suffix not in (".png", ".xz")
}


def test_the_top_level_has_what_it_should_and_nothing_else() -> None:
    assert {path.parts[0] for path in FILES} == TOP_LEVEL


def test_a_module_is_short_or_says_why_not() -> None:
    lines = {path: TEXTS[path].splitlines() for path in MODULES}
    excused = re.compile(r"(#|//|/\*) long: \w+")
    long = [
        f"{path} has {len(text)} lines"
        for path, text in lines.items()
        if len(text) > LINES_MAX and not any(excused.match(line) for line in text[:5])
    ]
    assert not long, f"split them, or say `# long: why` at the top: {long}"


def test_modules_are_named_for_what_they_are() -> None:
    vague = re.compile(r"(utils?|helpers?|common|managers?|base|misc)")
    assert not [path for path in MODULES if any(vague.fullmatch(Path(part).stem) for part in path.parts)]


UNWANTED = {
    "a path of somebody's machine": r"(?<![\w.~-])/(root|home|Users|work|farm|opt|srv|mnt)/",
    "the host of a package registry": r"(pypi|pythonhosted)\.org|npmjs\.|(docker|ghcr|quay)\.io|index[-]url",
    "something left undone": r"\b(TO[D]O|FIX[M]E|XX[X])\b",
}


@pytest.mark.parametrize("what", UNWANTED)
def test_no_file_contains(what: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(UNWANTED[what], line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


# Imports. import-linter, in `make check`, keeps the layers; it cannot say "only".


def imported(folder: str) -> set[str]:
    """The distributions that the modules of a folder import, Python's own left out."""
    found: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    owners = packages_distributions()
    foreign = found - sys.stdlib_module_names - {"service", "tests", "bench"}
    return {canonicalize_name(owners.get(name, [name])[0]) for name in foreign}


def declared(*, dev: bool) -> list[Requirement]:
    """What the package asks for, with its extras; that for developers only if asked."""
    extras = [lines for name, lines in PROJECT["optional-dependencies"].items() if dev or name != "dev"]
    found = [Requirement(line) for line in (*PROJECT["dependencies"], *chain(*extras))]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def test_the_mathematics_imports_numpy_and_a_hash_only() -> None:
    assert imported("service/learning") <= {"numpy", "mmh3"}


def test_whatever_is_imported_is_declared() -> None:
    runtime = {canonicalize_name(requirement.name) for requirement in declared(dev=False)}
    assert {COMES_WITH.get(name, name) for name in imported("service")} <= runtime
    with_dev = {canonicalize_name(requirement.name) for requirement in declared(dev=True)}
    assert {COMES_WITH.get(name, name) for name in imported("tests")} <= with_dev


# Pins


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [
        re.fullmatch(r"([A-Za-z0-9][\w.-]*)==([\w.]+)", line) for line in lines if not line.startswith("#")
    ]
    assert all(found), "constraints.txt has lines that are not name==version"
    return {canonicalize_name(pin[1]): pin[2] for pin in found if pin}


def test_every_direct_dependency_has_a_pin_in_its_range() -> None:
    pinned = pins()
    for requirement in declared(dev=True):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_every_dependency_of_a_dependency_has_a_pin() -> None:
    def applies(requirement: Requirement, extras: set[str]) -> bool:
        return requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras)

    waiting, seen = (
        [requirement for requirement in declared(dev=True) if applies(requirement, {""})],
        set[str](),
    )
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in seen:
            seen.add(name)
            found = map(Requirement, requires(name) or ())
            waiting += [another for another in found if applies(another, requirement.extras | {""})]
    assert seen <= pins().keys()


# The commands


def test_the_check_before_a_change_is_taken_is_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n") and "make test\n" in script.read_text()


def test_make_lists_its_targets() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(re.findall(r"^  make (\w+)", listed.stdout, re.MULTILINE)) >= {
        "help", "serve", "test", "check", "bench", "constraints", "clean",
    }  # fmt: skip


# The container


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


def test_hadolint_finds_nothing() -> None:
    subprocess.run([BIN / "hadolint", "Dockerfile"], cwd=ROOT, check=True)


def test_the_compose_file_fits_its_schema() -> None:
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_the_image_is_built_in_stages_from_a_slim_python_that_we_support() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(bases) >= 2
    for base in bases:
        version = re.fullmatch(r"python:(3\.\d+)-slim", base)
        assert version and Requirement(f"python{PROJECT['requires-python']}").specifier.contains(version[1])


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


def health_checks() -> dict[str, list[str]]:
    return {
        "Dockerfile": json.loads(last("HEALTHCHECK").split("CMD ", 1)[1]),
        "docker-compose.yml": compose()["services"]["novikoff"]["healthcheck"]["test"][1:],
    }


@pytest.mark.parametrize("where", ["Dockerfile", "docker-compose.yml"])
def test_the_health_check_tells_life_from_death(where: str, start: Callable[..., Service]) -> None:
    service = start()
    port = str(service.client.base_url.port)
    command = [part.replace(":8000", f":{port}") for part in health_checks()[where]]
    environment = os.environ | {"NOVIKOFF_PORT": port, "http_proxy": "http://127.0.0.1:1"}

    def check() -> int:
        return subprocess.run(
            [sys.executable, *command[1:]], env=environment, stderr=subprocess.DEVNULL
        ).returncode

    assert command[0] == "python"
    assert check() == 0
    service.stop()
    assert check() != 0
