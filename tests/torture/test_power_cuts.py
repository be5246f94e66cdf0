"""Power cuts, kills and damages at three hundred places of recorded runs; `make torture` tries thousands."""

import subprocess
import sys

import pytest

from tests.support.forkserver import ROOT

POINTS = {
    ("all-kept", "at-rest", "repair"): 24,
    ("rounds", "nothing-kept"): 54,
    ("first-start", "faults"): 28,
    ("migration",): 20,
}
"""How many of each; scenarios about the same recording are tried by one process, which records it once."""


@pytest.mark.parametrize("scenarios", POINTS, ids="-and-".join)
@pytest.mark.timeout(900)  # half a minute on a machine with little else to do
def test_all_that_was_acknowledged_is_there_or_the_damage_is_named(scenarios: tuple[str, ...]) -> None:
    each = POINTS[scenarios]
    command = [sys.executable, "-m", "tests.torture", "--points", str(each * len(scenarios)), "--steps", "30"]
    for scenario in scenarios:
        command += ["--scenario", scenario]
    tried = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert tried.stdout.count(f"; {each} points") == len(scenarios), tried.stdout
