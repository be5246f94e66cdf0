"""What is built can be installed and used: the wheel, the source distribution, and the types in them."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import novikoff
from tests.support.markdown import ROOT
from tests.support.service_process import Service

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio

import novikoff


def one_round(url: str) -> int:
    with novikoff.Client(url) as client:
        prediction: novikoff.Prediction = client.predict("typed", [1.0, 2.0])
        outcome = client.feedback(prediction.prediction_id, 1)
        probability: float | None = prediction.probability
        model = novikoff.RemoteModel(client, "typed.named")
        model.learn_one({"a": 1.0}, 1)
        try:
            client.get_model("no such model")
        except novikoff.Refused as refused:
            assert refused.status in (404, 422), probability
        return outcome.rounds


async def another(url: str) -> int:
    async with novikoff.AsyncClient(url) as client:
        return (await client.learn("typed", [1.0, 2.0], 1)).rounds


if __name__ == "__main__":
    import sys

    print(one_round(sys.argv[1]), asyncio.run(another(sys.argv[1])))
"""

WRONG = """
import novikoff

rounds: str = novikoff.Client().learn("m", [1.0], 1).rounds
novikoff.Client().feedback(novikoff.Client().dry_run("m", [1.0]).prediction_id, 1)
"""


def run(*command: object, where: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=where, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, built as an installer builds them, without asking a registry for anything."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, where=ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel in it, and what it depends on from the one that runs the tests."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, where=built)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel,
        where=built)  # fmt: skip
    (packages,) = home.glob("lib/python*/site-packages")
    others = Path(pytest.__file__).parent.parent
    # What this folder lists in files of its own, such as the working copy, does not come with it.
    (packages / "others.pth").write_text(f"{others}\n")
    return python


def test_the_wheel_has_all_that_the_packages_have_in_the_tree(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tree = {
        str(path.relative_to(ROOT))
        for package in ("novikoff", "service")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == tree and {"novikoff/py.typed", "service/py.typed"} <= inside


def test_the_source_distribution_gives_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", where=unpacked)
    (first,), (second,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    contents = [
        {name: archive.read(name) for name in archive.namelist()}
        for archive in (zipfile.ZipFile(first), zipfile.ZipFile(second))
    ]
    assert contents[0] == contents[1]


def test_a_program_against_the_installed_wheel_has_types_and_runs(
    installed: Path, service: Service, tmp_path: Path
) -> None:
    program, wrong = tmp_path / "program.py", tmp_path / "wrong.py"
    program.write_text(PROGRAM)
    wrong.write_text(WRONG)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed)
    said = run(*mypy, "--cache-dir", tmp_path / "cache", program, wrong, where=tmp_path, status=1)
    complaint, another, total = said.splitlines()
    assert complaint.startswith("wrong.py:4: ") and 'has type "int", variable has type "str"' in complaint
    assert another.startswith("wrong.py:5: ") and '"DryRun" has no attribute "prediction_id"' in another
    assert total == "Found 2 errors in 1 file (checked 2 source files)"
    assert run(installed, program, service.url, where=tmp_path).split() == ["1", "2"]


def test_the_installed_command_serves_the_page_and_the_documentation(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", "import service; print(service.__file__)", where=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent.parent)

    class Installed(Service):
        program = (str(installed), "-I", "-m", "service")

    served = Installed(tmp_path / "data").start(cold=True)
    try:
        for path in (
            "/",
            "/dashboard/app.js",
            "/dashboard/lib/dom.js",
            "/docs",
            "/docs/swagger-ui-bundle.js",
            "/openapi.json",
        ):
            assert served.client.get(path).status_code == 200, path
        assert served.learn("m", [1.0], 1)["rounds"] == 1
    finally:
        served.close()


def test_a_folder_called_service_is_no_matter_to_programs_and_commands(
    installed: Path, service: Service, tmp_path: Path
) -> None:
    foreign = tmp_path / "service"
    foreign.mkdir()
    for module in ("__init__", "errors", "settings"):
        (foreign / f"{module}.py").write_text("raise SystemExit('this is the service of somebody else')")
    (tmp_path / "program.py").write_text(PROGRAM)
    first, second = map(int, run(installed, "program.py", service.url, where=tmp_path).split())
    assert second == first + 1
    novikoff = installed.parent / "novikoff"
    run(novikoff, "export", "typed", "--url", service.url, where=tmp_path)

    class Installed(Service):
        program = (str(novikoff),)

    served = Installed(tmp_path / "data").start(cold=True)
    try:
        assert served.learn("m", [1.0], 1)["rounds"] == 1
    finally:
        served.close()


def test_every_name_for_programs_is_there_and_says_where_it_is_from() -> None:
    for name in novikoff.__all__:
        value = getattr(novikoff, name)
        assert getattr(value, "__module__", "novikoff.").startswith("novikoff."), name
    assert repr(novikoff.Client) == "<class 'novikoff.client.Client'>"
    with pytest.raises(AttributeError, match="module 'novikoff' has no attribute 'Clients'"):
        novikoff.Clients  # noqa: B018
