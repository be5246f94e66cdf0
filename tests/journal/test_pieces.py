"""A large state in pieces is the same bytes as in one."""

from typing import Any

import numpy as np
import pytest

from service.journal.codec import decode_state, encode_state
from service.journal.pieces import LARGE_BYTES, Pieces, cut, encode_large
from service.journal.seals import digest_of_parts, seal
from service.runtime.cooperative import FREED_BYTES

NUMBERS = np.random.default_rng(1).normal(size=LARGE_BYTES)

STATES: dict[str, dict[str, Any]] = {
    "none": {},
    "small": {"a": 1, "b": [1, 2.5, None, True, "x", b"y"], "w": np.arange(3.0)},
    "large": {"w": NUMBERS, "n": 1},
    "matrix": {"w": NUMBERS.reshape(256, -1), "places": np.arange(LARGE_BYTES)},
    "turned": {"w": NUMBERS.reshape(256, -1).T},
    "at the limit": {"w": NUMBERS[: LARGE_BYTES // 8], "v": NUMBERS[: LARGE_BYTES // 8 - 1]},
    "many": {"learners": [{"weights": NUMBERS[:9_000] + at, "updates": at} for at in range(20)]},
    "lists": {"list": [list(range(20)), [NUMBERS], (1, 2), {}], "long": list(range(70_000))},
    "long": {"names": [[] for _ in range(70_000)], **{f"field {at}": at for at in range(20)}},
}


@pytest.mark.parametrize("name", STATES)
def test_the_pieces_of_a_state_are_its_bytes(name: str) -> None:
    state = STATES[name]
    whole, pieces = encode_state(state), Pieces(state)
    assert len(pieces) == len(whole) and b"".join(pieces) == whole
    assert encode_state(decode_state(b"".join(pieces))[1]) == whole
    for size in (1_000, 262_144, len(whole), len(whole) + 1):
        cuts = list(cut(pieces, size))
        assert b"".join(cuts) == whole and cuts == list(cut(whole, size))
        assert {len(one) for one in cuts[:-1]} <= {size} and len(cuts[-1]) <= size
    assert whole + digest_of_parts(pieces, "here") == seal(whole, "here")


def test_a_state_that_is_small_after_all_is_one_piece() -> None:
    assert encode_large(STATES["small"]) == encode_state(STATES["small"])
    assert isinstance(encode_large(STATES["large"]), Pieces)


@pytest.mark.parametrize("shape", [(3 * FREED_BYTES // 8 + 5,), (7, FREED_BYTES // 8)])
async def test_memory_is_given_back_in_slices(shape: tuple[int, ...]) -> None:
    pieces = Pieces({"w": np.ones(shape), "of another": np.ones(shape)[1:], "small": np.ones(LARGE_BYTES)})
    await pieces.let_go()
    assert not list(pieces)
