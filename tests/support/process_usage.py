"""The memory, processor time and reads of a process, as the system counts them: the same on a busy machine."""

import os
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


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, its children left out."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_bytes(pid: int) -> int:
    """How much it has read from files, cached or not."""
    found = re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    assert found is not None
    return int(found[1])


def _field(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
