"""What a user got wrong is told in one line, by every command: no traceback, and nothing after it."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import InvalidSettings
from service.settings import load_settings
from tests.commands.running import novikoff
from tests.e2e.test_damage import turn_over_bits
from tests.novikoff.faulty import FaultyProxy
from tests.support.forkserver import run
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service

TABLE = "a,b,label\n" + "".join(f"{i % 5},{i % 3},{1 if i % 2 else -1}\n" for i in range(40))

PACKED = gzip.compress(TABLE.encode(), mtime=0)


def said(*arguments: object, status: int = 1, **settings: object) -> str:
    """The one line that a command says which has to fail, in a process of its own."""
    ended = run(*map(str, arguments), **settings)
    assert ended.returncode == status, (ended.stdout, ended.stderr)
    assert ended.stderr.startswith("novikoff: ") and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr.removeprefix("novikoff: ").rstrip()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    file.write_text(TABLE)
    return file


def test_a_replay_to_no_service_ends_in_order_whatever_is_wrong(table: Path) -> None:
    """It runs the service within its own process, and closes that too."""
    for wrong, words in {
        "labels": '{"labels": 5}',
        "learner.eta0": '{"learner": {"eta0": -1}}',
        "line 2: the model's labels are 0, 1": '{"labels": [0, 1]}',
    }.items():
        assert said("replay", table, "--model", "m", "--settings", words).startswith(wrong)
    assert said("replay", table, "--model", "no name").startswith("model: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,label\n1,2,3\n", "line 2: a row has 3 cells"),
        (b"a,label\n1,1\n2\n", "line 3: a row has 1 cell, the header has"),
        (b"a,label\n1,1\n\r2,1\n\rx\ry,1\n", "cannot be read: "),
        (PACKED[:-20], "cannot be read: "),
        (PACKED[:12] + b"\xff" * 40, "cannot be read: "),
        (b"\x1f\x8bno gzip", "cannot be read: "),
    ],
)
def test_a_file_that_is_broken_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "broken.csv"
    file.write_bytes(content)
    assert words in said("replay", file, "--model", "m")


@pytest.mark.parametrize("file", ["a.csv", "a.csv.gz", "a.jsonl", "a.svm", "-"])
def test_a_binary_file_is_told_to_be_one(tmp_path: Path, file: str) -> None:
    picture = b"\x89PNG\r\x1a\x00\x00\x00\rIHDR\x00\xff" + bytes(range(128, 256))
    content = gzip.compress(picture) if file.endswith(".gz") else picture
    if file == "-":
        ended = novikoff("replay", "-", "--format", "csv", "--model", "m", stdin=content)
        assert ended.status == 1 and "- is a binary file" in ended.err
        return
    (tmp_path / file).write_bytes(content)
    assert "is a binary file, and cannot be read as" in said("replay", tmp_path / file, "--model", "m")


@pytest.mark.parametrize("content", [b"{}\n", b'{"label": 1}\n', b'{"a": 1, "label": 1}\n{"a":'])
def test_a_file_of_lines_that_say_nothing_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_bytes(content)
    assert said("replay", file, "--model", "m")


COMMANDS: list[tuple[str, ...]] = [("export", "m"), ("top", "--once"), ("replay", "TABLE", "--model", "m")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_an_address_or_a_key_that_cannot_be_one_is_told(table: Path, command: tuple[str, ...]) -> None:
    arguments = [str(table) if each == "TABLE" else each for each in command]
    for url in ("http://[::1", "http://127.0.0.1:99999", "ftp://127.0.0.1"):
        assert said(*arguments, "--url", url) == f"{url!r} is not an http:// or https:// URL"
    assert "key" in said(*arguments, "--url", "http://127.0.0.1:9", "--key", "gr\u00fcn")


@pytest.mark.parametrize(
    "command", [("export",), ("history", "-o", "x.jsonl"), ("replay", "TABLE", "--model")]
)
def test_a_name_that_would_be_another_path_is_refused_as_a_name(
    table: Path, command: tuple[str, ...], service: Service
) -> None:
    arguments = [str(table) if each == "TABLE" else each for each in command]
    told = said(*arguments, "a/b", "--url", service.url)
    assert told.startswith("model: must be 1 to 128 letters")


def test_another_program_at_the_address_is_told(service: Service) -> None:
    with FaultyProxy(service, "another program") as proxy:
        assert "is not from Novikoff" in said("top", "--once", "--url", proxy.url)


def test_an_export_that_cannot_be_written_is_told(service: Service, name: str, tmp_path: Path) -> None:
    service.learn(name, [1.0], 1)
    for to in (tmp_path, tmp_path / "no" / "file"):
        assert said("export", name, "--url", service.url, "--to", to).startswith(f"{to}: ")


@pytest.mark.parametrize("journal", ["nats://[::1", "nats://127.0.0.1:99999", "nats://:4222"])
def test_a_cluster_that_cannot_be_one_is_told(tmp_path: Path, journal: str) -> None:
    told = said("serve", "--data", tmp_path, "--port", 0, status=2, journal=journal)
    assert told == f"NOVIKOFF_JOURNAL: {journal!r} is not a server address"


def test_a_damaged_model_is_not_moved(start: Callable[..., Service], nats_server: NatsServer) -> None:
    service = start(snapshot_every_events=5, events_kept_max=0)
    for _ in range(20):
        service.learn("m", [1.0], 1)
    service.stop()
    turn_over_bits(service.data, "snapshot", "state", "true")
    settings = nats_server.settings(f"t{os.urandom(6).hex()}")
    to = settings.pop("journal")
    ended = run("migrate", "--from", f"sqlite:{service.data}", "--to", str(to), **settings)
    *logged, told = ended.stderr.splitlines()
    assert ended.returncode == 1 and all(line.startswith("the snapshot of m ") for line in logged)
    assert told.startswith("novikoff: the history of 'm' is damaged: ")


def test_a_setting_that_is_wrong_is_the_only_one_that_is_named() -> None:
    """Defaults of others are shares of the memory, and are not worked out while anything is wrong."""
    with pytest.raises(InvalidSettings) as refused:
        load_settings(port="eighty")
    assert [each.field for each in refused.value.fields] == ["NOVIKOFF_PORT"]
