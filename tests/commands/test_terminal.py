"""The commands that live in a terminal, in one."""

import os
from pathlib import Path

from tests.commands.examples import as_table, make_examples
from tests.commands.running import worked
from tests.commands.terminal import Terminal
from tests.running import Service

EXAMPLES = make_examples(30)


def test_ctrl_c_stops_a_replay_with_the_table_so_far_and_it_can_go_on(
    tmp_path: Path, service: Service, name: str
) -> None:
    service.create(name)
    head, rows = as_table(EXAMPLES).split("\n", 1)
    source, feeding = os.pipe()
    command = ("replay", "-", "--format", "csv", "--model", name, "--url", service.url)
    with Terminal(*command, stdin=source) as terminal:
        os.close(source)
        os.write(feeding, f"{head}\n{rows * 20}".encode())
        terminal.shows(r"[1-9][\d,]* rounds  [\d,]+/s  error [\d.]+%  \d+ mistakes")
        assert terminal.interrupt() == 130
        terminal.shows(r"rounds +│ [\d,]+ so far")
    os.close(feeding)
    done = service.stats(name)["rounds"]["revealed"]
    assert 0 < done < 20 * len(EXAMPLES)
    service.assert_replay_equals_live(name)
    file = tmp_path / "rows.csv"
    file.write_text(f"{head}\n{rows * 20}")
    said = worked("replay", file, "--model", name, "--url", service.url, "--resume")
    assert f"going on after row {done:,}" in said
    assert service.stats(name)["rounds"]["revealed"] == 20 * len(EXAMPLES)


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
