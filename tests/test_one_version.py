"""One version everywhere, and formats of saved data that change only with it."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from service.journal.codec import STATE_VERSION
from service.journal.jetstream.format import FORMAT_VERSION
from service.journal.sqlite.schema import SCHEMA_VERSION
from tests.commands.running import worked
from tests.golden.archives import FILES, unpack
from tests.support.markdown import ROOT
from tests.support.service_process import Service
from tests.test_tidy import PROJECT

VERSION = PROJECT["version"]

FORMATS = {"0.1.0": (2, 1, 1), "0.2.0": (7, 6, 3)}
"""The versions of the SQLite schema, of states and of NATS streams that each version writes.

The line of a version that was released is never changed: whoever has its files relies on it.
"""


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_formats_of_saved_data_change_only_with_the_version() -> None:
    assert FORMATS.get(VERSION) == (SCHEMA_VERSION, STATE_VERSION, FORMAT_VERSION), (
        f"a format has changed: raise the version, add its line to FORMATS, and to {ROOT / 'CHANGELOG.md'}"
    )
    assert [*FORMATS] == sorted(FORMATS, key=numbers) and numbers(VERSION) == max(map(numbers, FORMATS))
    for older, newer in zip(FORMATS.values(), [*FORMATS.values()][1:], strict=False):
        assert all(before <= after for before, after in zip(older, newer, strict=True))


def test_the_recorded_schema_of_version_0_1_0_is_that_of_its_files(tmp_path: Path) -> None:
    data = unpack(FILES / "stopped.tar.xz", tmp_path)
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMATS["0.1.0"][0],)


def test_the_program_and_the_service_say_the_version_of_the_project(service: Service) -> None:
    assert worked("--version") == f"novikoff {VERSION}\n"
    assert f'novikoff_info{{version="{VERSION}"}} 1' in service.client.get("/metrics").text
    assert service.get("/openapi.json")["info"]["version"] == VERSION


def test_the_chart_the_images_and_the_documents_have_the_version_of_the_project() -> None:
    chart = (ROOT / "deploy" / "helm" / "novikoff" / "Chart.yaml").read_text()
    assert re.findall(r"^(?:appV|v)ersion: (.*)$", chart, re.MULTILINE) == [VERSION, VERSION]
    for name in ("docker-compose.yml", "deploy/kubernetes/novikoff.yaml", "docs/how-to.md"):
        assert {*re.findall(r"\bnovikoff:(\d[\w.]*)", (ROOT / name).read_text())} == {VERSION}, name
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == VERSION
