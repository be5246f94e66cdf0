"""Whoever reads a line, it means the same: to the bit what it holds, to the letter what is wrong with it."""

import json
import struct
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.web.stream import array_lines
from tests.support.stream_lines import read

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-10, 10).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["-0", "0", "-0.0", "1.7e308", "1e100", "1e101", "1e309", "-1e400", "1e-400", "5e-324"]),
    st.sampled_from(
        ["01", "+1", ".5", "1.", "1e", "NaN", "Infinity", "true", "null", '"1"', "[1]", "{}", ""]
    ),
)
GOOD_NUMBERS = st.one_of(
    st.floats(-1e100, 1e100).map(repr),
    st.floats(-10, 10).map(repr),
    st.integers(-(2**63), 2**64 - 1).map(str),
)
LABELS = st.one_of(
    st.sampled_from(
        ["1", "-1", "true", "1.0", "null", '"a]"', '"[b"', '"\\u00e9\\n"', "1e400", "2e0", str(2**70)]
    )
)
SPACES = st.sampled_from(["", "", "", " ", "\t", "\r", "  "])


@st.composite
def a_line(draw: st.DrawFn, numbers: st.SearchStrategy[str]) -> str:
    space = draw(SPACES)
    listed = f",{space}".join(draw(st.lists(numbers, min_size=2, max_size=3)))
    fields = [f'"features":{space}[{space}{listed}{space}]']
    fields.append(f'"label":{draw(LABELS)}')
    more = [
        '"model":"m"',
        '"model":"[x]"',
        '"id":"i"',
        '"features":[1]',
        '"label":-1',
        '"colour":1',
        '"prediction_id":"p"',
    ]
    if draw(st.integers(0, 3)) == 0:
        fields.append(draw(st.sampled_from(more)))
        fields = draw(st.permutations(fields))
    return "{" + f",{space}".join(fields) + "}" + space


@st.composite
def a_body(draw: st.DrawFn) -> bytes:
    """Lines that are alike, or not, or bytes of which were changed, left out or put in."""
    numbers = draw(st.sampled_from([GOOD_NUMBERS, NUMBERS]))
    some = st.lists(a_line(numbers), min_size=1, max_size=4)
    plain = st.lists(numbers, min_size=2, max_size=2).map(
        lambda n: f'{{"features":[{",".join(n)}],"label":1}}'
    )
    body = bytearray("\n".join(draw(st.one_of(some, st.lists(plain, min_size=1, max_size=6)))).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        put = draw(
            st.one_of(
                st.sampled_from(list(b'[]{},":\n\r -.e0"')).map(lambda b: bytes([b])), st.binary(max_size=2)
            )
        )
        body[at : at + draw(st.integers(0, 2))] = put
    return bytes(body)


@settings(deadline=None)
@given(a_body(), st.lists(st.integers(1, 60), max_size=4))
@example(b'{"features":[1}\n{"features":[2],"label":3],"label":4}', [])
@example(b'{"features":[1,2],"label":1,"label":2}\n{"features":[1,2,3]}', [])
@example(b'{"features":[1,2],"label":1}\n{"features":[1,2,1.7e308,3,4],"label":1}', [])
@example(b'{"features":[1],"label":1}\n1],"label":1}', [])
@example(b'{"features":["],"label":1}\n{"features":["],"label":1}', [])
@example(b'{"model":"[","features":{"a":"]"},"label":1}', [])
@example(b'{"features":[1]\n,"label":1}', [])
@example(b'{"features":[1],"label":1} {"features":[1],"label":1}', [])
@example(b'{"features":[1],"label":1}\n{"features":[2],"label":1} {"features":[3],"label":1}', [27])
@pytest.mark.slow
def test_lines_read_as_arrays_are_what_the_decoder_reads(body: bytes, sizes: list[int]) -> None:
    expected = read(body, as_arrays=False, sizes=sizes)
    assert read(body, as_arrays=True, sizes=sizes) == expected
    assert read(body, as_arrays=True, sizes=sizes, with_simd=False) == expected


@given(st.lists(st.lists(GOOD_NUMBERS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_plain_lines_are_read_as_arrays(numbers: list[list[str]]) -> None:
    body = "\n".join(f'{{"features":[{",".join(row)}],"label":1}}' for row in numbers).encode()
    found = array_lines.dense_lines(body)
    assert found is not None and found.model is None and found.labels == [1] * len(numbers)
    assert found.rows.values.tobytes() == struct.pack(
        f"<{3 * len(numbers)}d",
        *(float(number) for row in numbers for number in json.loads(f"[{','.join(row)}]")),
    )


@pytest.mark.parametrize("fields", ['"model":"m",', '"id":null,', '"model":null,'])
def test_other_fields_may_stand_around(fields: str) -> None:
    body = f'{{{fields}"features":[1, 2],"label":"a"}}\n{{{fields}"features":[3, 4],"label":true}}\n'.encode()
    found = array_lines.dense_lines(body)
    assert found is not None and found.labels == ["a", True]
    assert found.rows.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.slow
def test_without_the_extra_all_lines_go_to_the_decoder() -> None:
    """In an interpreter that cannot import it."""
    program = """
import sys
sys.modules["simdjson"] = None
from service.web.stream import array_lines
assert array_lines.dense_lines(b'{"features":[1],"label":1}') is None
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_many_lines_are_cut_where_lines_end() -> None:
    body = b"".join(b'{"features":[%d,0.5],"label":1}\n' % i for i in range(9_000))
    found = read(body, as_arrays=True, sizes=[200_000])
    assert found == read(body, as_arrays=False, sizes=[200_000])
    assert len(found) == 9_000
