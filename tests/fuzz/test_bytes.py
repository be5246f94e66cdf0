"""Bytes that nobody would send: bodies, lines, columns, exports and snapshots, made up or mangled."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.fleet.loading import restore_live
from service.engine.models.model import Model
from service.errors import ModelUnreadable
from service.events import ModelCreated
from service.journal.protocol import StoredModel
from service.journal.seals import Damaged, seal, unseal
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.fuzz.effort import effort
from tests.support.service_process import Service, problem_of

NDJSON = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}

numbers = st.integers() | st.floats() | st.sampled_from([1e308, -1e308, 5e-324, 2**63, -(2**64), 10**400])
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(["items", "features"]), inner, max_size=4)
    ),
    max_leaves=12,
)
fields = st.sampled_from(["model", "features", "label", "id", "prediction_id", "explain", "items", "other"])
plausible = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["a", "0", "new", ""]) | json_values,
        "features": st.lists(numbers, max_size=3) | json_values,
        "label": st.sampled_from([1, -1, 1.0, True, "x"]) | json_values,
        "id": st.sampled_from(["one", "two"]) | json_values,
        "prediction_id": st.sampled_from(["one", "two"]) | json_values,
        "items": st.lists(json_values, max_size=3),
    },
)  # fmt: skip
bodies = st.binary(max_size=60) | (plausible | st.dictionaries(fields, json_values) | json_values).map(
    lambda value: json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
)


@st.composite
def mangled(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes turned over, cut off, taken out or put in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        how = draw(st.sampled_from(["turn", "cut", "remove", "insert", "number"]))
        if how == "turn" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del data[at:]
        elif how == "remove":
            del data[at : at + draw(st.integers(1, 8))]
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            data[at : at + 4] = draw(
                st.sampled_from([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80"])
            )
    return bytes(data)


@pytest.mark.parametrize("path", ["/predict", "/feedback", "/learn", "/models"])
def test_any_body_is_answered_or_refused(fuzzed: Service, path: str) -> None:
    @given(bodies)
    @effort(150)
    def send(body: bytes) -> None:
        answer = fuzzed.client.post(path, content=body, headers={"content-type": "application/json"})
        if answer.status_code >= 300:
            assert problem_of(answer)[0] < 500, answer.text
        else:
            assert "internal-error" not in answer.text

    send()


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Lines, and the parts of a body in which they come."""
    lines = [line.replace(b"\n", b" ") for line in draw(st.lists(bodies, max_size=8))]
    body = b"\n".join(lines)
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
    return lines, [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def test_any_lines_get_an_answer_each(fuzzed: Service) -> None:
    @given(streams())
    @effort(200)
    def send(stream: tuple[list[bytes], list[bytes]]) -> None:
        lines, parts = stream

        def sent() -> Iterator[bytes]:
            yield from parts

        answer = fuzzed.client.post("/stream?model=a", content=sent(), headers=NDJSON)
        assert answer.status_code == 200
        told = answer.text.splitlines()
        assert len(told) == sum(bool(line.strip()) for line in lines)
        for line in told:
            assert json.loads(line).get("error", {}).get("status", 200) < 500, line

    send()


def test_any_mangled_gzip_is_survived(fuzzed: Service) -> None:
    whole = gzip.compress(b'{"features": [1.0], "label": 1}\n' * 50)

    @given(mangled(whole))
    @effort(100)
    def send(body: bytes) -> None:
        answer = fuzzed.client.post(
            "/stream?model=a", content=body, headers={**NDJSON, "content-encoding": "gzip"}
        )
        assert answer.status_code == 200 and "internal-error" not in answer.text

    send()


def arrow_stream() -> bytes:
    batch = pa.record_batch({"x": [1.0, 2.0, 3.0], "y": [0.5, 1.5, 2.5], "label": [1, -1, 1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def test_any_mangled_columns_are_learned_or_refused(fuzzed: Service) -> None:
    @given(mangled(arrow_stream()) | st.binary(max_size=200))
    @effort(400)
    def send(body: bytes) -> None:
        answer = fuzzed.client.post("/stream?model=columns", content=body, headers=ARROW)
        if answer.status_code != 200:
            assert problem_of(answer)[0] < 500, answer.text

    send()
    assert (
        fuzzed.client.post("/stream?model=columns", content=arrow_stream(), headers=ARROW).status_code == 200
    )


def test_any_mangled_export_is_refused_or_the_same(fuzzed: Service) -> None:
    fuzzed.learn("exported", [1.0, 2.0], -1)
    whole = fuzzed.client.get("/models/exported/export").content

    @given(mangled(whole))
    @effort(150)
    def send(body: bytes) -> None:
        fuzzed.client.delete("/models/imported")
        answer = fuzzed.client.put(
            "/models/imported", content=body, headers={"content-type": "application/json"}
        )
        if answer.status_code < 300:
            assert fuzzed.weights("imported") == fuzzed.weights("exported")
        else:
            assert problem_of(answer)[0] < 500, answer.text

    send()


def some_state() -> bytes:
    settings = ModelSettings(features={"dimension": 2}).complete(ModelLimits(100, 100, 100, 10**6))
    return Model(ModelCreated("m", 1, settings)).to_bytes()


@given(st.data())
@effort(500)
def test_no_mangled_snapshot_keeps_its_seal(data: st.DataObject) -> None:
    sealed = seal(some_state())
    changed = data.draw(mangled(sealed))
    if changed != sealed:
        with pytest.raises(Damaged):
            unseal(changed)


@given(st.data())
@effort(300)
def test_a_mangled_state_fails_only_as_damage_does(data: st.DataObject) -> None:
    """Even if somebody has sealed it: the model's requests get 503, and not 500."""
    stored = StoredModel(data.draw(mangled(some_state())), 1, [], [], voided_through=0, life=1)
    with suppress(ModelUnreadable):
        asyncio.run(restore_live("m", stored))
