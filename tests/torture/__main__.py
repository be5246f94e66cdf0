"""`make torture`: power cuts, kills and damage, simulated at thousands of places of recorded runs."""

import argparse
import gc
import itertools
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from service.journal.sqlite.soundness import why_misshapen
from tests.torture.cuts import CUTS, DAMAGES
from tests.torture.faults import CALLS_THAT_FAIL, try_faults
from tests.torture.mutants import find_mutants
from tests.torture.points import Account, try_points
from tests.torture.recorded import SCENARIOS, record
from tests.torture.repairing import REPAIRS

FAULTS = "faults"

POINTS_OF_A_REPAIR = 10
"""After so many, another damage is repaired."""

MUTANT_POINTS_MAX = 300
"""Each shows at once, or not at all."""


def main() -> None:
    options = argparse.ArgumentParser(prog="make torture", description=__doc__)
    options.add_argument("--points", type=int, default=3000, help="how many directories are tried in all")
    options.add_argument("--seed", default="1", help="another one gives other rounds, places and cuts")
    options.add_argument("--steps", type=int, default=60, help="how much each client does in a recorded run")
    options.add_argument(
        "--scenario", choices=[*SCENARIOS, FAULTS], action="append", help="instead of all of them"
    )
    options.add_argument(
        "--way", choices=list(CUTS | DAMAGES), action="append", help="instead of all of them"
    )
    options.add_argument(
        "--call", choices=CALLS_THAT_FAIL, action="append", help="that fails, instead of all of them"
    )
    options.add_argument("--sound", action="store_true", help="only what a sound disk may do")
    options.add_argument("--first", action="store_true", help="stop at the first that ends wrong")
    options.add_argument(
        "--mutants", action="store_true", help="switch each mechanism off and see that it is missed"
    )
    chosen = options.parse_args()
    ways = chosen.way or list(CUTS if chosen.sound else CUTS | DAMAGES)
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # nobody waits for a real disk then
    with tempfile.TemporaryDirectory(prefix="novikoff-torture-", dir=in_memory) as directory:
        if chosen.mutants:
            is_well = find_mutants(Path(directory), min(chosen.points, MUTANT_POINTS_MAX), chosen.seed)
        else:
            is_well = torture(Path(directory), chosen.scenario or [*SCENARIOS, FAULTS], ways, chosen)
    sys.exit(0 if is_well else 1)


def torture(directory: Path, scenarios: list[str], ways: list[str], chosen: argparse.Namespace) -> bool:
    is_well = True
    warm_up()
    for name in scenarios:
        began = time.monotonic()
        gc.freeze()  # so that forked processes share what is there
        count = chosen.points // len(scenarios)
        if name == FAULTS:
            calls = chosen.call or CALLS_THAT_FAIL
            account, told = try_faults(directory / name, count, chosen.seed, calls, first=chosen.first)
            about = ", ".join(f"{number} rounds {what}" for what, number in told.items())
        else:
            account, about = Account(), ""
            for seed, most in _recordings(name, count, chosen.seed):
                recorded = record(name, directory, seed, chosen.steps)
                gc.freeze()
                share = min(most, count - account.points)
                account += try_points(recorded, directory / "work", ways, share, seed, first=chosen.first)
                about = f"{len(recorded.log)} operations"
                if account.points >= count or (chosen.first and account.wrongs):
                    break
        seconds = time.monotonic() - began
        print(f"{name}: {about}; {account.points} points, {seconds:.0f} s")
        print(*account.lines(), sep="\n", flush=True)
        is_well &= not account.wrongs
    return is_well


def _recordings(name: str, count: int, seed: str) -> Iterator[tuple[str, int]]:
    """The seed of each recording, and how many points it has: of repairs there are many, each of another damage."""
    if name not in REPAIRS:
        return iter([(seed, count)])
    return ((f"{seed}.{number}", POINTS_OF_A_REPAIR) for number in itertools.count())


def warm_up() -> None:
    """Have at hand what each forked process would make for itself."""
    with closing(sqlite3.connect(":memory:")) as empty:
        why_misshapen(empty)


if __name__ == "__main__":
    main()
