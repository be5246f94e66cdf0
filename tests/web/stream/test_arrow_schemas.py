"""Schemas of Arrow streams: refused before Arrow reads them, if they have too many columns or become too large."""

import io
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from service.web.stream.arrow_compression import (
    MESSAGE_HEADER,
    SCHEMA_COLUMNS,
    _field,
    _number,
    _root,
    _table,
    check_schema,
)
from tests.support.service_process import Service, problem_of

Start = Callable[..., Service]

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def stream_of(**columns: Any) -> bytes:
    batch = pa.record_batch(columns)
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as stream:
        stream.write(batch)
    return body.getvalue()


def shared(schema: pa.Schema, times: int) -> bytes:
    """A schema whose only column stands in it so many times, without being repeated in the bytes."""
    whole = schema.serialize().to_pybytes()
    metadata = whole[8 : 8 + struct.unpack_from("<i", whole, 4)[0]]
    data = memoryview(metadata)
    header = _table(data, _root(data), MESSAGE_HEADER)
    place, vector = _field(data, header, SCHEMA_COLUMNS), _table(data, header, SCHEMA_COLUMNS)
    column = vector + 4 + _number(data, vector + 4)
    listed = len(metadata)
    copy = listed + 4 + 4 * times
    copy += -copy % 8
    offsets = (copy + column - (listed + 4 + 4 * at) for at in range(times))
    made = bytearray(metadata) + struct.pack(f"<{times + 1}I", times, *offsets)
    made += b"\0" * (copy - len(made)) + metadata
    struct.pack_into("<I", made, place, listed - place)
    made += b"\0" * (-len(made) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(made)) + bytes(made)


def checked(schema: bytes, columns_max: int) -> None:
    check_schema(pa.ipc.MessageReader.open_stream(pa.py_buffer(schema)).read_next_message(), columns_max)


def test_as_many_columns_are_taken_as_features_and_a_label(start: Start) -> None:
    service = start(features_max=10)
    for features, status in ((10, 200), (11, 422), (100_000, 422)):
        columns = {f"c{at}": [1.0] for at in range(features)}
        answer = service.client.post(
            "/stream?model=m", content=stream_of(label=[1], **columns), headers=ARROW
        )
        assert answer.status_code == status, answer.text
    assert answer.json()["errors"][0]["field"] == "features"
    assert service.stats("m")["rounds"]["revealed"] == 1


def test_columns_that_share_a_long_name_are_refused(service: Service) -> None:
    """Arrow would make a copy for each: 50 GB of these 350 KB."""
    schema = shared(pa.schema([pa.field("x" * 100_000, pa.int64())]), 60_000)
    answer = service.client.post("/stream?model=m", content=schema, headers=ARROW)
    assert problem_of(answer) == (400, "malformed-json") and "schema" in answer.text


@pytest.mark.parametrize(
    "column",
    [
        pa.field("x", pa.int64(), metadata={"k": "v" * 10_000}),
        pa.field("x", pa.int64(), metadata={"k" * 10_000: "v"}),
        pa.field("x", pa.timestamp("s", tz="t" * 10_000)),
        pa.field("x", pa.list_(pa.field("y" * 10_000, pa.int8()))),
    ],
)
def test_whatever_columns_share_is_counted_for_each(column: pa.Field) -> None:
    schema = pa.schema([column])
    checked(schema.serialize().to_pybytes(), 1)
    checked(shared(schema, 1), 1)
    with pytest.raises(ValueError, match="too large"):
        checked(shared(schema, 10), 10)


def test_columns_within_each_other_are_counted() -> None:
    inner = pa.field("a", pa.struct([pa.field(str(at), pa.int8()) for at in range(100)]))
    schema = pa.schema([inner]).serialize().to_pybytes()
    checked(schema, 30)
    with pytest.raises(ValueError, match="too large"):
        checked(schema, 20)


def test_a_schema_of_every_kind_of_column_is_read() -> None:
    kinds = [
        pa.int8(), pa.float16(), pa.string(), pa.large_string(), pa.bool_(), pa.binary(), pa.date32(),
        pa.timestamp("us", tz="Europe/Berlin"), pa.decimal128(5), pa.list_(pa.float32(), 3),
        pa.dictionary(pa.int8(), pa.string()), pa.map_(pa.string(), pa.int8()), pa.null(), pa.duration("s"),
        pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.int8())]),
    ]  # fmt: skip
    fields = [pa.field(str(at), kind, metadata={"a": "b"}) for at, kind in enumerate(kinds)]
    checked(pa.schema(fields, metadata={"pandas": "{}"}).serialize().to_pybytes(), len(fields))


def test_a_damaged_schema_is_malformed(service: Service) -> None:
    whole = stream_of(label=[1], x=[1.0])
    for at in range(8, 300, 7):
        for value in (0, 0xFF):
            answer = service.client.post(
                "/stream?model=damaged", content=whole[:at] + bytes([value]) + whole[at + 1 :], headers=ARROW
            )
            assert answer.status_code in (200, 400, 422), answer.text
    assert problem_of(service.client.post("/stream?model=m", content=b"", headers=ARROW))[0] == 400
