"""Processes of our own: the writer of the journal, fits, and readers of large imports."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parent.parent)
"""Where this very package is, installed or not."""


def command_of(module: str) -> list[str]:
    """The command that runs a module of ours, and never a file that lies in the working directory.

    -P keeps that directory out of the path. What is appended instead is where the service itself was found, for when
    it is run from a directory that it is not installed from.
    """
    code = (
        "import runpy, sys; sys.path.append(sys.argv[1]); runpy.run_module(sys.argv[2], run_name='__main__')"
    )
    return [sys.executable, "-P", "-c", code, ROOT, module]
