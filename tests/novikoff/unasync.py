"""Makes novikoff/client.py out of novikoff/async_client.py: `python -m tests.novikoff.unasync` (`make client`)."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.markdown import ROOT

SOURCE = ROOT / "novikoff" / "async_client.py"
TARGET = ROOT / "novikoff" / "client.py"

REPLACEMENTS = (
    (r'\A""".*"""$', '"""The waiting client. Made from async_client.py by `make client`: do not edit."""'),
    (r"^import asyncio\n", ""),
    (r"Many calls may be\n    under way at once\.", "Threads may share\n    a client."),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\b(async|await) ", ""),
    (r"\bAsync(?=Iterator|Client|Connections|BaseTransport)", ""),
    (r"\basync_(?=connections\b)", ""),
    (r"\b__a(?=enter__|exit__)", "__"),
    (r"\.a(?=close\(|read\(|iter_bytes\()", "."),
)


def waiting(source: str) -> str:
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    for command in (("check", "--select", "I,UP028,C416", "--fix", "--unsafe-fixes"), ("format",)):
        source = _ruff(*command, source=source)
    return source


def _ruff(*arguments: str, source: str) -> str:
    command = [Path(sys.executable).with_name("ruff"), *arguments, "--quiet", "--stdin-filename", TARGET, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


if __name__ == "__main__":
    TARGET.write_text(waiting(SOURCE.read_text()))
