"""Libraries that another one would load on its own, and that the service never uses."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

UNUSED = frozenset({"pandas", "pydantic.v1"})
"""pyarrow loads pandas, where it is installed, to see whether it was given a series: 54 MB, and half a second during
which the event loop waits for the interpreter. FastAPI loads pydantic.v1 to see whether a route takes a model of it."""


class _Without(MetaPathFinder):
    """Finds that they are not installed, which whoever can do without them takes for an answer."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name in UNUSED:
            raise ModuleNotFoundError(f"the service does without {name}", name=name)


def do_without_unused() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, _Without())
