"""Data directories that 0.1.0 has left behind are opened to the same answers."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.journal.codec import decode_state, encode_state
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.schema import SCHEMA_VERSION, seal_derived
from tests.commands.running import novikoff
from tests.golden.archives import FILES, unpack
from tests.golden.fleet import OPENED_WITH
from tests.golden.transcripts import assert_same, load
from tests.support.service_process import Service


@pytest.mark.parametrize("how_it_ended", ["stopped", "killed"])
def test_a_directory_of_version_0_1_0_gives_the_same_answers(
    how_it_ended: str, start: Callable[..., Service], tmp_path: Path
) -> None:
    told = load(FILES / f"{how_it_ended}.json.xz")
    data = unpack(FILES / f"{how_it_ended}.tar.xz", tmp_path / "data")
    service = start(data, **OPENED_WITH)
    assert_same(service, told["found"])
    assert_is_listed_by_recent_error(service)
    assert service.stop() == 0
    assert_is_well(data)
    service.start()
    assert_same(service, told["found"])
    assert_same(service, told["done"])
    assert_same(service, told["left"])
    assert service.stop() == 0
    assert_is_well(data)
    service.start()
    assert_same(service, told["left"])


def assert_is_listed_by_recent_error(service: Service) -> None:
    """0.1.0 did not keep it in the list of models."""
    listed = service.get("/stats?sort=ewma_error_rate&limit=1000&fields=ewma_error_rate")["models"]
    rates = [line["ewma_error_rate"] for line in listed if line["ewma_error_rate"] is not None]
    assert rates == sorted(rates, reverse=True) and len(rates) > 10


def assert_is_well(data: Path) -> None:
    """The file has come to the present schema, and the doctor finds no problem."""
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    ended = novikoff("doctor", "--data", data)
    assert ended.status == 0, ended.out


def test_what_an_older_version_has_counted_otherwise_is_no_damage(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    """Its statistics are taken as they are, and what has been counted since is compared."""
    data = unpack(FILES / "killed.tar.xz", tmp_path / "data")

    def counted_otherwise(sealed: bytes) -> bytes:
        version, state = decode_state(sealed[:-SEAL_BYTES])
        assert version == 1
        if state["bound"] is not None:
            state["bound"]["norm_sq_max"] *= 2
        return seal_derived(encode_state(state, version))

    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        connection.create_function("counted_otherwise", 1, counted_otherwise)
        connection.execute("UPDATE snapshot SET state = counted_otherwise(state)")
        connection.commit()
    service = start(data, **OPENED_WITH)
    for i in range(20):  # until no snapshot of 0.1.0 is left of it
        service.learn("perceptron.two.dense", [1.0, float(i), 2.0], 1 if i % 2 else -1)
    assert service.stop() == 0
    assert_is_well(data)
