"""A decoder chosen for a stream's lines reads what the decoder of all lines reads."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.web.stream.array_lines import TRIES_MAX, AlikeLines
from service.web.stream.line import Line, decoder
from tests.support.stream_lines import read

NAMES = st.sampled_from(["a", "b", "é", "a b", "", '\\"', "of_0", "label", "model"])
VALUES = st.one_of(
    st.floats(-10, 10).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["-0.0", "1e100", "1e101", "1e400", "true", "null", '"x"', '["x"]', "01", "{}"]),
)
LABELS = st.sampled_from(["1", "-1", "true", "1.0", '"a"', "null", str(2**70)])
MORE = st.sampled_from(['"model":"m",', '"id":"i",', '"id":null,', '"colour":1,', '"model":null,'])


@st.composite
def a_line(draw: st.DrawFn, names: list[str]) -> str:
    """Mostly a whole round of numbers with these names."""
    odd = draw(st.integers(0, 5)) == 0
    values = VALUES if odd else st.floats(-10, 10).map(repr)
    pairs = [f"{json.dumps(name)}:{draw(values)}" for name in names]
    if draw(st.integers(0, 5)) == 0:
        pairs = draw(st.permutations(pairs))
    if odd and draw(st.booleans()):
        pairs.append(f"{json.dumps(draw(NAMES))}:{draw(VALUES)}")
    more = draw(MORE) if draw(st.integers(0, 5)) == 0 else ""
    return f'{{{more}"features":{{{",".join(pairs)}}},"label":{draw(LABELS) if odd else 1}}}'


@st.composite
def a_body(draw: st.DrawFn) -> bytes:
    body = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(NAMES, max_size=3, unique=True))
        body += draw(st.lists(a_line(names), min_size=1, max_size=5))
    return "\n".join(body).encode()


@settings(deadline=None)
@given(a_body(), st.lists(st.integers(1, 90), max_size=8))
@example(b'{"features":{"a":1},"label":1}\n{"features":{"a":1,"a":2},"label":1}', [31])
@example(b'{"features":{"a":1},"label":1}\n{"features":{"\\u0061":3},"label":1}', [31])
@example(
    b'{"features":{"a":1},"label":1}\n{"features":{"a":1},"label":1} {"features":{"a":1},"label":1}', [31]
)
@pytest.mark.slow
def test_lines_read_by_their_names_are_what_the_decoder_reads(body: bytes, sizes: list[int]) -> None:
    assert read(body, as_arrays=True, sizes=sizes) == read(body, as_arrays=False, sizes=sizes)


def line_of(features: Any, label: Any = 1) -> Line:
    return decoder.decode(json.dumps({"features": features, "label": label}))


def test_what_was_seen_once_is_expected_again() -> None:
    alike = AlikeLines()
    body = b'{"features":{"b":2.5,"a":1},"label":"x"}\n{"features":{"a":3,"b":4},"label":true,"model":null}'
    assert alike.read(body) is None
    alike.expect([line_of({"a": 1, "b": 2})])
    found = alike.read(body)
    assert found is not None and found.labels == ["x", True] and found.model is None
    assert found.rows.names == ["a", "b"] and found.rows.values.tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_lists_of_numbers_become_an_array_without_simd_too() -> None:
    alike = AlikeLines()
    body = b'{"features":[2.5,1],"label":"x"}\n{"model":null,"label":true,"features":[3,4]}'
    assert alike.read(body) is None
    alike.expect([line_of([1, 2])])
    found = alike.read(body)
    assert found is not None and found.labels == ["x", True] and found.model is None
    assert found.rows.names is None and found.rows.values.tolist() == [[2.5, 1.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "second", ['{"features":[1],"label":1}', '{"features":[1,2]}', '{"features":[1,1e101],"label":1}', "{}"]
)
def test_lists_that_are_no_rows_of_one_table_are_left_to_the_decoder(second: str) -> None:
    alike = AlikeLines()
    alike.expect([line_of([1, 2])])
    assert alike.read(f'{{"features":[1,2],"label":1}}\n{second}'.encode()) is None


@pytest.mark.parametrize(
    "features", [[1.0], [], {}, {"a": "word"}, {"a": True}, {"a": ["b"]}, {"\ud800": 1.0}]
)
def test_other_features_are_left_to_the_decoder(features: Any) -> None:
    alike = AlikeLines()
    alike.expect([Line(None, features, None, 1)])
    assert alike.read(b'{"features":{"a":1},"label":1}') is None


def test_a_stream_that_changes_its_names_again_and_again_is_left_to_the_decoder() -> None:
    alike = AlikeLines()
    for number in range(TRIES_MAX):
        alike.expect([line_of({f"a{number}": 1})])
        assert alike.read(b'{"features":{"a%d":1},"label":1}' % number) is not None
        assert alike.read(b'{"features":{"other":1},"label":1}') is None
    alike.expect([line_of({"b": 1})])
    assert alike.read(b'{"features":{"b":1},"label":1}') is None
