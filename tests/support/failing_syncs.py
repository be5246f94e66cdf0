"""A disk whose syncs fail: made by a library that is loaded into the processes of a service."""

import subprocess
from pathlib import Path
from shutil import which

from tests.support.missing_programs import missing

SOURCE = Path(__file__).with_name("failing_syncs.c")


class FailingSyncs:
    """Syncs of files with a certain ending fail between `begin` and `end`, or once."""

    def __init__(self, directory: Path) -> None:
        """Make the library there. It is loaded by programs that are started with `environment`."""
        if which("cc") is None:
            missing("a C compiler is needed to let syncs fail")
        library, self._orders = directory / "failing_syncs.so", directory / "failing_syncs"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "FAILING_SYNCS": str(self._orders)}

    def begin(self, ending: str, often: str = "always") -> None:
        new = self._orders.with_suffix(".new")
        new.write_text(f"{ending}\n{often}\n")
        new.replace(self._orders)  # never seen half written

    def once(self, ending: str) -> None:
        self.begin(ending, "once")

    def end(self) -> None:
        self._orders.unlink()

    @property
    def are_over(self) -> bool:
        return not self._orders.exists()
