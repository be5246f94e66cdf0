"""Power cuts, kills and damages at a hundred and fifty places of recorded runs; `make torture` tries thousands."""

import subprocess
import sys

import pytest

from tests.forking import ROOT

POINTS = {
    "rounds": 30,
    "nothing-kept": 18,
    "all-kept": 18,
    "first-start": 18,
    "migration": 12,
    "at-rest": 24,
    "repair": 18,
    "faults": 16,
}


@pytest.mark.parametrize("scenario", POINTS)
@pytest.mark.timeout(300)  # half a minute on a machine with little else to do
def test_all_that_was_acknowledged_is_there_or_the_damage_is_named(scenario: str) -> None:
    points = str(POINTS[scenario])
    tried = subprocess.run(
        [sys.executable, "-m", "tests.torture", "--scenario", scenario, "--points", points, "--steps", "30"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert f"{points} points" in tried.stdout
