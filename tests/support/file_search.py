"""Looking for bytes in every file of a directory that somebody is using."""

import os
from pathlib import Path


def files_with(directory: Path, *needles: bytes) -> list[str]:
    """The files that have any of these bytes; one that is removed meanwhile has none."""
    found: list[str] = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            if any(needle in content for needle in needles):
                found.append(str(path.relative_to(directory)))
    return sorted(found)
