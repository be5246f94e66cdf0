"""SIGTERM to the first process of a container, before the service runs.

The kernel ignores a signal to the first process of a PID namespace unless that has a handler for it. Here a module
that is imported early waits for a pipe, so that the signal comes in the middle of the imports for sure.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forkserver import environment
from tests.support.waiting import PATIENCE_SECONDS, eventually

NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork"]


def begin(command: list[str], **more: str) -> subprocess.Popen[bytes]:
    """`python -m service` as the first process of a namespace."""
    return subprocess.Popen([*NAMESPACE, sys.executable, "-m", "service", *command], env=environment() | more)


def tell_to_stop(process: subprocess.Popen[bytes]) -> int:
    """SIGTERM to what `unshare` has started; its exit status."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    return process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(("command", "status"), [("serve", 0), ("doctor", 128 + signal.SIGTERM)])
@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_sigterm_ends_the_first_process_while_it_still_imports(
    tmp_path: Path, command: str, status: int, module: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / f"{module}.py").write_text(f"open({str(pipe)!r}).read()\n")
    process = begin([command, "--data", str(tmp_path / "data")], PYTHONPATH=str(tmp_path))
    try:
        with pipe.open("w"):  # until it has come so far
            assert tell_to_stop(process) == status
    finally:
        process.kill()
        process.wait()


def test_sigterm_ends_a_start_that_waits_for_a_cluster(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        journal = f"nats://127.0.0.1:{silent.getsockname()[1]}"

        def ends_by_the_signal() -> bool:
            """Not if it has given up by itself, which it does after some seconds."""
            process = begin(["serve", "--data", str(tmp_path), "--port", "0"], NOVIKOFF_JOURNAL=journal)
            try:
                connection, _ = silent.accept()
                with connection:
                    status = tell_to_stop(process)
                assert status in (0, 2)
                return status == 0
            finally:
                process.kill()
                process.wait()

        eventually(ends_by_the_signal, not_yet=(ValueError, ProcessLookupError))  # it had ended before
