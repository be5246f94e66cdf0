"""Small files beside the journal, each written whole or not at all."""

import os
from pathlib import Path

from service.journal.sqlite.lock import sync_directory


def write_durably(file: Path, content: bytes) -> None:
    """Put a file with this content in the place of one, if there is one. A power cut leaves one of the two."""
    new = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
    sync_directory(file.parent)
