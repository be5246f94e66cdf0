"""The memory of a process, as the system counts it."""

import re
from pathlib import Path


def peak_bytes(pid: int) -> int:
    """The most that was resident at any time since the start or `restart_peak`."""
    return _field(pid, "VmHWM")


def resident_bytes(pid: int) -> int:
    return _field(pid, "VmRSS")


def restart_peak(pid: int) -> None:
    """Let the peak be what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _field(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
