"""Projects of Docker Compose, each in a copy of what an operator has."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.engine import Project, api
from tests.support.markdown import ROOT


@pytest.fixture(scope="session")
def socket() -> Iterator[str]:
    with api() as address:
        yield address


@pytest.fixture(scope="module")
def project(
    request: pytest.FixtureRequest, socket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """A project that is named after the file of the tests, and is taken down in the end."""
    directory = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "docker-compose.yml", directory)
    for name in ("deploy", "monitoring"):
        shutil.copytree(ROOT / name, directory / name)
    for path in (directory, *directory.parents, *directory.rglob("*")):
        if directory.parent.parent in path.parents or path == directory.parent.parent:
            path.chmod(path.stat().st_mode | 0o055 if path.is_dir() else 0o644)
    made = Project(Path(request.path).stem.replace("_", "-"), directory, socket)
    yield made
    made.close()
