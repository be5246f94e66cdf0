"""The programs in examples/ run as they are, against a real service, and show what they promise to show."""

import ast
import io
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS

PROGRAMS = Path(__file__).parents[2] / "examples"


def output_of(program: str, service: Service) -> str:
    """What a program prints that is run as it is, but within this process, which has imported much of it already."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", [program, "--url", service.url])
        runpy.run_path(str(PROGRAMS / program), run_name="__main__")
    return said.getvalue()


def output_of_process(program: str, service: Service, *more: str) -> str:
    """The same of one that starts processes itself, or sets what holds for the whole process."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / program, "--url", service.url, *more],
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_every_program_is_run() -> None:
    own = Path(__file__).read_text()
    assert all(f'"{path.name}"' in own for path in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda program: program.name)
def test_a_program_says_what_it_needs_beside_the_service(program: Path) -> None:
    tree = ast.parse(program.read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    needed = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"novikoff"}
    told = re.search(r"pip install (.*)", ast.get_docstring(tree) or "")
    installed = {
        re.split(r"[<>=]", requirement)[0]
        for requirement in requires("novikoff") or ()
        if "extra ==" not in requirement
    }
    assert needed <= installed | {name.removesuffix("-py") for name in (told[1] if told else "").split()}


def test_the_text_filter_learns_to_sort(service: Service) -> None:
    said = output_of("text_filter.py", service)
    assert number(r"the last 100: (\S+)", said) < 0.15 < number(r" 100  (\S+)", said)
    assert number(r" 300  (\S+)", said) == pytest.approx(
        service.stats("example-text-filter")["error_rate"], abs=5e-4
    )
    assert "unwanted: " in said and "schema" in said.split("unwanted: ")[1]


def test_a_model_each_pleases_better_than_one_for_all(service: Service) -> None:
    service.learn("example-user-3", [1.0], 1)  # as if it had run before
    said = output_of("model_per_user.py", service)
    assert number(r"a model each: +error (\S+)", said) < 0.8 * number(r"for all: +error (\S+)", said)
    assert "10 users, 800 clicks" in said
    assert service.stats("example-user-3")["rounds"]["revealed"] == 80


def test_the_change_is_found_and_learned(service: Service) -> None:
    said = output_of("late_labels.py", service)
    assert 400 < number(r"the change was found at page (\d+)", said) < 550
    assert number(r" 500  (\S+)", said) > 0.5 > 2 * number(r" 800  (\S+)", said)
    stats = service.stats("example-late-labels")
    assert stats["rounds"]["revealed"] == 800 and stats["rounds"]["pending"] == 0


def test_asking_saves_labels_and_costs_little(service: Service) -> None:
    """Which labels are asked for is chance, by the id and by when the model was made: the figures differ a little.

    By 300 simulated runs: 2640 ± 41 labels, an error of 0.1272 ± 0.0010 beside 0.1202, an estimate that is off by
    0.0036, and an interval from 0 to 0.366 ± 0.004. Each limit is at least 12 standard deviations away.
    """
    said = output_of("labelling_loop.py", service)
    assert "5000 pages" in said and "5000 labels" in said
    labels = number(r"asked for: +(\d+) labels", said)
    assert 1000 < labels < 3500
    error = number(r"asked for: .*error (\S+)", said)
    assert error < number(r"every label: .*error (\S+)", said) + 0.02
    estimate = number(r"estimate of that error: (\S+)", said)
    assert estimate == pytest.approx(error, abs=0.05)
    assert number(r"\((\S+) to", said) <= error <= number(r"to (\S+)\)", said)
    stats = service.stats("example-labelling-asking")
    assert stats["ask"]["asked"] == stats["rounds"]["revealed"] == labels
    assert stats["rounds"]["predicted"] == 5000 and stats["ask"]["predictions"] == 5000


@pytest.mark.smoke
def test_consumers_that_are_killed_learn_each_message_once(service: Service, nats_server: NatsServer) -> None:
    said = output_of_process("consumer_loop.py", service, "--nats", nats_server.url)
    assert said.count("was killed") == 2 and "consumer 3 ended" in said
    assert number(r"consumer 1 was killed, (\d+) rounds", said) <= 50
    assert number(r"delivered (\d+) times", said) > 120 == number(r"learned (\d+) times", said)
    stats = service.stats("example-consumer-loop")
    assert stats["rounds"] == {"predicted": 120, "revealed": 120, "pending": 0, "expired": 0}


@pytest.mark.thorough
def test_a_copy_in_mlflow_tells_what_the_service_tells(service: Service, tmp_path: Path) -> None:
    places = ("--tracking", f"sqlite:///{tmp_path}/mlflow.db", "--artifacts", str(tmp_path / "artifacts"))
    said = output_of_process("mlflow_model.py", service, *places)
    assert re.search(r"logged as models:/\S+", said) and list((tmp_path / "artifacts").rglob("model.onnx"))
    assert "200 of 200 labels are the same" in said
    assert number(r"differ by (\S+) at most", said) < 1e-4
