"""Switches each mechanism off, one at a time, in a copy of the program, to see that the simulator finds it."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.torture.recorded import ROOT


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mechanism, and how it is switched off: text of a file and what stands there instead."""

    mechanism: str
    file: str
    text: str
    instead: str
    arguments: tuple[str, ...]
    """For `python -m tests.torture`: where it shows."""


SQLITE = "service/journal/sqlite"

MUTANTS = [
    Mutant(
        "a commit is synced before it is answered",
        f"{SQLITE}/schema.py",
        '"power": "FULL"',
        '"power": "NORMAL"',
        ("--scenario", "all-kept", "--sound"),
    ),
    Mutant(
        "the log is synced before it is folded into the file",
        f"{SQLITE}/schema.py",
        '"power": "FULL"',
        '"power": "OFF"',
        ("--scenario", "rounds", "--sound"),
    ),
    Mutant(
        "the numbering has a high-water mark of its own",
        f"{SQLITE}/writing.py",
        "SELECT max(numbered, coalesce((SELECT max(seq) FROM event), 0)) FROM journal",
        "SELECT coalesce((SELECT max(seq) FROM event), 0) FROM journal",
        ("--scenario", "nothing-kept", "--sound"),
    ),
    Mutant(
        "a commit whose sync has failed is in doubt",
        f"{SQLITE}/writing.py",
        "raise InDoubt(str(error)) from error",
        "raise",
        ("--scenario", "faults", "--call", "sync"),
    ),
    Mutant(
        "rows are checked by their digests",
        "service/journal/seals.py",
        "if sealed[-SEAL_BYTES:] != digest(content, place):",
        "if False:",
        ("--scenario", "at-rest", "--way", "turned_bit"),
    ),
    Mutant(
        "the log is checked before SQLite drops a part of it",
        f"{SQLITE}/directory.py",
        "    check_log(path, durability)\n",
        "",
        ("--scenario", "all-kept", "--way", "turned_in_log"),
    ),
    Mutant(
        "it is noted up to where the journal was acknowledged",
        f"{SQLITE}/soundness.py",
        "note is None or note.seq <= newest or not note.is_reliable",
        "True",
        ("--scenario", "all-kept", "--way", "lost_file"),
    ),
    Mutant(
        "a directory knows that it has been used",
        f"{SQLITE}/directory.py",
        "    check_not_lost(path)\n",
        "",
        ("--scenario", "at-rest", "--way", "lost_file"),
    ),
    Mutant(
        "a repair removes the old log before its copy takes the place of the old file",
        f"{SQLITE}/directory.py",
        "    remove_beside(path)\n    sync_directory(path.parent)\n    _repaired(path).replace(path)\n",
        "    _repaired(path).replace(path)\n    remove_beside(path)\n",
        ("--scenario", "repair", "--sound"),
    ),
    Mutant(
        "a repair that was cut off is ended by whoever comes next",
        f"{SQLITE}/directory.py",
        "    if is_replacing(path):\n",
        "    if False:\n",
        ("--scenario", "repair", "--sound"),
    ),
    Mutant(
        "what failed commits leave in the log is cut off",
        f"{SQLITE}/writer_process.py",
        "        self._truncate_log()\n",
        "",
        ("--scenario", "faults", "--call", "sync"),
    ),
    Mutant(
        "a migration is one transaction",
        f"{SQLITE}/schema.py",
        "        STEPS[step](connection)\n",
        "        STEPS[step](connection)\n        connection.execute('COMMIT')\n        connection.execute('BEGIN')\n",
        ("--scenario", "migration", "--sound"),
    ),
]


def find_mutants(directory: Path, points: int, seed: str) -> bool:
    """Try every mutant; whether all were found."""
    are_found = [
        _find(mutant, directory / str(number), points, seed) for number, mutant in enumerate(MUTANTS)
    ]
    print(f"{sum(are_found)} of {len(MUTANTS)} mechanisms are missed when they are switched off")
    return all(are_found)


def _find(mutant: Mutant, directory: Path, points: int, seed: str) -> bool:
    for folder in ("service", "tests"):
        shutil.copytree(ROOT / folder, directory / folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = directory / mutant.file
    before = file.read_text()
    assert before.count(mutant.text) == 1, f"{mutant.file} has changed: {mutant.text}"
    file.write_text(before.replace(mutant.text, mutant.instead))
    command = [sys.executable, "-m", "tests.torture", "--points", str(points), "--seed", seed, "--first"]
    tried = subprocess.run([*command, *mutant.arguments], cwd=directory, capture_output=True, text=True)
    shutil.rmtree(directory)
    wrong = next((line for line in tried.stdout.splitlines() if line.startswith("WRONG")), None)
    print(
        f"{'found' if wrong else 'NOT FOUND'}: {mutant.mechanism}\n    {wrong or tried.stdout + tried.stderr}",
        flush=True,
    )
    return wrong is not None
