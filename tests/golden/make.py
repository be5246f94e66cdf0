"""Writes the golden files. They were written once, by the program of version 0.1.0, and are not to be written again:

    git worktree add ../novikoff-0.1.0 7594089   # and install it there into an environment of its own
    python -m tests.golden.make ../novikoff-0.1.0/.venv/bin/novikoff

A later version may add a folder of its own beside `0.1.0`, with its own program.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.golden import transcripts
from tests.golden.archives import FILES, pack
from tests.golden.fleet import (
    COMBINATIONS,
    FEWER,
    SETTINGS,
    Fleet,
    fill_combinations,
    fill_extraordinary,
    go_on,
)
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service

PREFIX = "golden"


def service_of(program: Path, data: Path, **settings: object) -> Service:
    service = Service(data, **(SETTINGS | settings))
    service.program = (str(program),)
    return service


def kill_with_its_writer(service: Service) -> None:
    """At the same moment, so that neither tidies up after the other."""
    processes = (service.process.pid, service.writer_pid)
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            os.kill(process, sign)
    service.close()


def transcribe(program: Path, data: Path, fleet: Fleet, name: str) -> None:
    """Pack a directory, and record what the program answers when it opens a copy of it."""
    pack(data, FILES / f"{name}.tar.xz")
    copy = data.with_name(f"{name}-copy")
    shutil.copytree(data, copy)
    service = service_of(program, copy).start(cold=True)
    transcripts.save(FILES / f"{name}.json.xz", transcripts.record(service, fleet))
    service.stop()
    service.close()


def make_stopped(program: Path, data: Path) -> None:
    """The directory of a service that was stopped, and exports of its models."""
    fleet = Fleet()
    service = service_of(program, data).start(cold=True)
    fill_combinations(service, fleet, COMBINATIONS)
    fill_extraordinary(service, fleet)
    exports = [service.get(f"/models/{model}/export") for model in fleet.models]
    transcripts.save(FILES / "exports.json.xz", exports)
    assert service.stop() == 0
    service.close()
    transcribe(program, data, fleet, "stopped")


def make_killed(program: Path, data: Path) -> None:
    """The directory of a service that was started again, and killed."""
    fleet = Fleet()
    service = service_of(program, data).start(cold=True)
    fill_combinations(service, fleet, FEWER)
    fill_extraordinary(service, fleet)
    assert service.stop() == 0
    service.start(cold=True)
    go_on(service, fleet)
    kill_with_its_writer(service)
    assert (data / "journal.sqlite-wal").stat().st_size
    transcribe(program, data, fleet, "killed")


def make_streams(program: Path, directory: Path) -> None:
    """The store of a NATS server after one replica has stopped and another one was killed."""
    server = NatsServer(directory / "nats").start()
    server.wait_until_healthy()
    fleet = Fleet()
    service = service_of(program, directory / "unused", **server.settings(PREFIX)).start(cold=True)
    fill_combinations(service, fleet, FEWER)
    fill_extraordinary(service, fleet)
    assert service.stop() == 0
    service.start(cold=True)
    go_on(service, fleet)
    service.kill()
    service.close()
    server.process.terminate()
    server.process.wait()
    pack(directory / "nats" / "store", FILES / "streams.tar.xz")
    server.start().wait_until_healthy()
    service = service_of(program, directory / "unused", **server.settings(PREFIX)).start(cold=True)
    transcripts.save(FILES / "streams.json.xz", transcripts.record(service, fleet))
    service.stop()
    service.close()
    server.kill()


def main() -> None:
    program = Path(sys.argv[1]).absolute()
    FILES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # else the program's writing process would find the `service` that lies here
        make_stopped(program, Path(scratch, "stopped"))
        make_killed(program, Path(scratch, "killed"))
        make_streams(program, Path(scratch))


if __name__ == "__main__":
    main()
