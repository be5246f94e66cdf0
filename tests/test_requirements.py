"""The pins with hashes that the image is made with: they are those of constraints.txt, and none is missing."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_tidy import ROOT

IMAGE_EXTRAS = ("nats", "simd")
IMAGE = {"python_version": "3.13", "python_full_version": "3.13.0"}

PINNED = re.compile(
    r"(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)


def pins(file: str) -> dict[str, str]:
    """Versions by names, of a file that has nothing else in it but comments at its top."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy" / file).read_text(), flags=re.MULTILINE)
    found = list(PINNED.finditer(text))
    assert "".join(one[0] for one in found) == text
    return {canonicalize_name(one["name"]): one["version"] for one in found}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def needed(lines: Iterable[str], extras: Iterable[str] = ()) -> set[str]:
    """What these requirements bring on the image's Python, going by the packages of this environment."""
    found: set[str] = set()
    for line in lines:
        one = Requirement(line)
        environments = [{**IMAGE, "extra": extra} for extra in ("", *extras)]
        if one.marker is None or any(map(one.marker.evaluate, environments)):
            found |= {canonicalize_name(one.name)} | needed(requires(one.name) or (), one.extras)
    return found


def test_the_image_gets_the_versions_that_were_tested() -> None:
    tested = constraints()
    assert {name: tested.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")


def test_no_requirement_of_the_image_is_missing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in IMAGE_EXTRAS:
        wanted += project["optional-dependencies"][extra]
    assert needed(wanted) == pins("requirements.txt").keys()


@pytest.mark.parametrize("name", ["hatchling", "setuptools"])
def test_what_builds_is_pinned_too(name: str) -> None:
    assert name in pins("build-requirements.txt")
