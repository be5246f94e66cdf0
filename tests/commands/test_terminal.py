"""The commands that live in a terminal, in one."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.commands.examples import as_table, make_examples, write
from tests.commands.running import worked
from tests.commands.terminal import Terminal
from tests.support.service_process import Service

EXAMPLES = make_examples(30)


def feed_for_ever(pipe: int, head: str, rows: str) -> None:
    """Until nobody reads any more."""
    with suppress(BrokenPipeError):
        os.write(pipe, f"{head}\n".encode())
        while True:
            os.write(pipe, rows.encode())


def test_ctrl_c_stops_a_replay_with_the_table_so_far_and_it_can_go_on(
    tmp_path: Path, service: Service, name: str
) -> None:
    service.create(name)
    head, rows = as_table(EXAMPLES).split("\n", 1)
    source, feeding = os.pipe()
    command = ("replay", "-", "--format", "csv", "--model", name, "--url", service.url)
    with Terminal(*command, stdin=source) as terminal:
        os.close(source)
        feeder = Thread(target=feed_for_ever, args=(feeding, head, rows))
        feeder.start()
        terminal.shows(r"[1-9][\d,]* rounds  [\d,]+/s  error [\d.]+%  \d+ mistakes")
        assert terminal.interrupt() == 130
        terminal.shows(r"rounds +│ [\d,]+ so far")
    feeder.join()
    os.close(feeding)
    done = service.stats(name)["rounds"]["revealed"]
    assert done > 0
    service.assert_replay_equals_live(name)
    times = done // len(EXAMPLES) + 2
    file = tmp_path / "rows.csv"
    file.write_text(f"{head}\n{rows * times}")
    said = worked("replay", file, "--model", name, "--url", service.url, "--resume")
    assert f"continuing after row {done:,}" in said
    assert service.stats(name)["rounds"]["revealed"] == times * len(EXAMPLES)


@pytest.mark.parametrize("file", ["zipped.csv.gz", "columns.parquet"])
def test_a_pipe_may_have_gzip_or_parquet_in_it(
    tmp_path: Path, service: Service, name: str, file: str
) -> None:
    content = write(tmp_path, file, EXAMPLES).read_bytes()
    format = "csv" if file.endswith(".gz") else "parquet"
    command = ("replay", "-", "--format", format, "--model", name, "--url", service.url)
    subprocess.run([sys.executable, "-m", "service", *command], input=content, check=True)
    assert service.stats(name)["rounds"]["revealed"] == len(EXAMPLES)


def test_rows_are_played_as_they_come_and_ctrl_c_ends_the_waiting(service: Service, name: str) -> None:
    service.create(name)
    head, *rows = as_table(EXAMPLES[:3]).splitlines()
    source, feeding = os.pipe()
    command = ("replay", "-", "--format", "csv", "--model", name, "--url", service.url)
    with Terminal(*command, stdin=source) as terminal:
        os.close(source)
        os.write(feeding, f"{head}\n".encode())
        for number, row in enumerate(rows, 1):
            os.write(feeding, f"{row}\n".encode())
            terminal.shows(rf"\b{number} rounds?\b")
        assert terminal.interrupt() == 130
        terminal.shows(r"rounds +│ 3 so far")
    os.close(feeding)


def test_top_shows_the_fleet_as_it_learns(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    with Terminal("top", "--url", service.url, "--prefix", name, "--every", 0.1) as terminal:
        terminal.shows(rf"1 model, 1 round,.*\n?[\s\S]*{name} +│ perceptron +│ +1 ")
        for _ in range(4):
            service.learn(name, [1.0], -1)
        terminal.shows(rf"1 model, 5 rounds[\s\S]*{name} +│ perceptron +│ +5 ")
        terminal.shows("stable")
        assert terminal.interrupt() == 0
