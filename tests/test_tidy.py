"""The tree is tidy: small files with plain names, one way of importing, exact pins."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

TOP_LEVEL = {
    ".ci", ".dockerignore", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile",
    "README.md", "SECURITY.md", "bench", "constraints.txt", "deploy", "docker-compose.yml", "docs", "examples",
    "monitoring", "novikoff",
    "pyproject.toml", "service", "tests",
}  # fmt: skip
COMES_WITH = {"starlette": "fastapi", "pydantic-core": "pydantic"}
"""What we import though another dependency brings it, in the version that suits that one."""
SHARED = {"opentelemetry": ["opentelemetry-sdk"]}
"""Names that several distributions share, and the one of them that we ask for."""


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
    owners = packages_distributions() | SHARED
    foreign = found - sys.stdlib_module_names - {"novikoff", "service", "tests", "bench"}
    return {canonicalize_name(owners.get(name, [name])[0]) for name in foreign}


def declared(*, dev: bool) -> list[Requirement]:
    """What the package asks for, with its extras; that for developers only if asked."""
    extras = [
        lines for name, lines in PROJECT["optional-dependencies"].items() if dev or not name.startswith("dev")
    ]
    found = [Requirement(line) for line in (*PROJECT["dependencies"], *chain(*extras))]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def test_the_mathematics_imports_numpy_a_hash_and_msgspec_only() -> None:
    assert imported("service/learning") <= {"numpy", "mmh3", "msgspec"}


@pytest.mark.slow
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


@pytest.mark.thorough
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


@pytest.mark.slow
def test_make_lists_its_targets() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(re.findall(r"^  make (\w+)", listed.stdout, re.MULTILINE)) >= {
        "help", "serve", "quick", "test", "check", "bench", "constraints", "clean",
    }  # fmt: skip
