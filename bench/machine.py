"""What the figures were measured on."""

import os
import platform
import re
import shutil
import sqlite3
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "novikoff", "fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic", "msgspec", "numpy",
    "river", "scikit-learn", "vowpalwabbit", "pyarrow",
)  # fmt: skip


def describe(directory: Path) -> dict[str, str]:
    """The machine and its software; `directory` is where the data are."""
    processor = _found("/proc/cpuinfo", r"model name\s*: (.+)")
    memory_kb = int(_found("/proc/meminfo", r"MemTotal:\s+(\d+)"))
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "CPU": f"{len(os.sched_getaffinity(0))} cores, {processor}",
        "memory": f"{memory_kb / 1e6:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(directory),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "wrk": _wrk(),
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "load before": f"{os.getloadavg()[0]:.1f} (a minute's mean; near 0 if nobody else uses the machine)",
    }


class Stolen:
    """What the host of a virtual machine has taken for others, since this was made."""

    def __init__(self) -> None:
        self._before = self._times()

    def __str__(self) -> str:
        stolen, total = (now - before for now, before in zip(self._times(), self._before, strict=True))
        return f"{100 * stolen / max(1, total):.1f}% of the cores' time"

    @staticmethod
    def _times() -> tuple[int, int]:
        """The stolen time and all time, of all cores together, in ticks."""
        times = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return times[7], sum(times)


def _found(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return found[1].strip() if found else "0"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(missing)"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = bool(git("status", "--porcelain", "--", "../service"))
        return git("rev-parse", "--short", "HEAD") + (", with changes to the service" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _file_system(directory: Path) -> str:
    """The kind of the file system that holds a directory."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(at), kind) for at, kind in mounts if directory.resolve().is_relative_to(at)]
    return max(holding)[1]


def _wrk() -> str:
    if shutil.which("wrk") is None:
        return "missing"
    told = subprocess.run(["wrk", "--version"], capture_output=True, text=True)
    return (told.stdout + told.stderr).split("[")[0].removeprefix("wrk").strip()
