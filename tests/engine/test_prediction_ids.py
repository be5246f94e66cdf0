"""Ids that the service makes: sorted by time, and never mistaken for a client's."""

import os
import random
import re
from collections.abc import Callable
from uuid import UUID, uuid1, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novikoff import make_id
from novikoff.schemas import NAME_PATTERN, PREDICTION_ID_PATTERN
from service.engine.names import check_id, made_at, make_job_id, make_prediction_id
from service.errors import InvalidRequest

EACH = 10_000
NOW_MS = 1_800_000_000_000
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def uuid7() -> UUID:
    """48 bits of milliseconds, then chance, as RFC 9562 has it."""
    number = (NOW_MS + random.randrange(10**9)) << 80 | int.from_bytes(os.urandom(10), "big")
    return UUID(int=number & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)


def ulid() -> str:
    number = (NOW_MS + random.randrange(10**9)) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


IDS_OF_CLIENTS: dict[str, Callable[[], str]] = {
    "uuid4 in hexadecimal": lambda: uuid4().hex,
    "uuid4": lambda: str(uuid4()),
    "uuid1": lambda: uuid1().hex,
    "uuid7 in hexadecimal": lambda: uuid7().hex,
    "uuid7": lambda: str(uuid7()),
    "ulid": ulid,
    "hexadecimal": lambda: os.urandom(random.randint(1, 64)).hex(),
    "as version 0.1.0 made them": lambda: make_job_id(NOW_MS * 1000),
    "of our client": make_id,
}


@pytest.mark.parametrize("kind", IDS_OF_CLIENTS)
def test_ids_that_clients_make_are_not_the_services(kind: str) -> None:
    for _ in range(EACH):
        chosen = IDS_OF_CLIENTS[kind]()
        check_id(chosen)
        assert made_at(chosen) is None, chosen


@given(st.from_regex(NAME_PATTERN, fullmatch=True).filter(lambda name: len(name) <= 128))
def test_no_id_that_a_client_may_choose_is_one_of_the_services(chosen: str) -> None:
    assert made_at(chosen.strip()) is None


@given(st.integers(0, 2**48 * 1000 - 1))
def test_what_the_service_makes_is_always_known_as_its_own(at: int) -> None:
    made = make_prediction_id(at)
    assert made_at(made) == at // 1000 * 1000
    assert re.fullmatch(PREDICTION_ID_PATTERN, made)
    with pytest.raises(InvalidRequest, match=r"id: '~' is reserved for ids made by the service"):
        check_id(made)


@given(st.lists(st.integers(0, 2**48 - 1), unique=True))
def test_ids_are_sorted_by_the_millisecond_in_which_they_were_made(milliseconds: list[int]) -> None:
    ids = [make_prediction_id(1000 * each) for each in sorted(milliseconds)]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "nearly",
    ["", "~", "0" * 12 + "~", "~" + "0" * 20, "0" * 12 + "~" + "0" * 19, "0" * 12 + "~" + "g" * 20,
     "0" * 12 + "~" + "0" * 19 + "~", "+" + "0" * 11 + "~" + "0" * 20, "0_0" * 4 + "~" + "0" * 20],
)  # fmt: skip
def test_what_only_resembles_such_an_id_is_none(nearly: str) -> None:
    assert made_at(nearly) is None
