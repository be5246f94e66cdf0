"""The work of a process, as the system counts it: a busy neighbour makes it slower, and not more."""

import os
import re
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processor, its children left out."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_bytes(pid: int) -> int:
    """How much it has read from files, whether they were in memory or not."""
    found = re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    assert found is not None
    return int(found[1])
