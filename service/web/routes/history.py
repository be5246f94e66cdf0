"""GET /models/{model}/history: the rounds of a model as data, a line or a row for each.

Arrow streams and Parquet files are written while they are sent, and need the extra `arrow`.
"""

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Response

from service.engine.models.labels import text_of
from service.engine.models.model import Model
from service.engine.replay.past_rounds import PastRound, Record, Wanted
from service.errors import InvalidRequest
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import OWNER_SEPARATOR, prefix
from service.web.http.requests import NDJSON
from service.web.http.responses import BreakingOff, timestamp
from service.web.routes.models import ModelName
from service.web.routes.openapi import problems

MEDIA_TYPES = {
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}

ROWS = {"arrow": 1_000, "parquet": 10_000}
"""Rows of a batch, or of a row group; fewer if their features have VALUES_MAX numbers."""
VALUES_MAX = 262_144

LABEL_TYPES = {bool: "bool_", int: "int64", str: "string"}


def columnar(form: str, model: Model, portions: AsyncIterator[list[PastRound]]) -> AsyncIterator[bytes]:
    """The bytes of a stream or a file; InvalidRequest, at once, if pyarrow is not there."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InvalidRequest.at("format", f"{form} needs the extra `arrow`: pip install pyarrow") from None
    columns = Columns(pa, model)
    sink = Sink()
    writer = (
        pa.ipc.new_stream(sink, columns.schema) if form == "arrow" else pq.ParquetWriter(sink, columns.schema)
    )
    return _parts(columns, writer, sink, portions, ROWS[form])


class Columns:
    """Which columns there are, and how rounds become them.

    Labels have the type of the declared ones if these have one type, and are text otherwise.
    """

    def __init__(self, pa: Any, model: Model) -> None:
        self._pa = pa
        types = {type(label) for label in model.settings["labels"] or ()}
        self._is_text = len(types) != 1
        label = pa.string() if self._is_text else getattr(pa, LABEL_TYPES[types.pop()])()
        time, is_dense = pa.timestamp("us", "UTC"), model.settings["features"]["kind"] == "dense"
        self.schema = pa.schema(
            {
                "version": pa.int64(),
                "at": time,
                "predicted_at": time,
                "prediction_id": pa.string(),
                "features": pa.list_(pa.float64()) if is_dense else pa.map_(pa.string(), pa.float64()),
                "label": label,
                "served": label,
                "score": pa.float64(),
                "probability": pa.float64(),
                "mistake": pa.bool_(),
                "updated": pa.bool_(),
                "weight": pa.float64(),
            }
        )

    def batch(self, rounds: list[PastRound]) -> Any:
        columns: dict[str, list[Any]] = {
            name: [getattr(each, name) for each in rounds] for name in self.schema.names
        }
        columns["features"] = [
            list(each.items()) if isinstance(each, dict) else each for each in columns["features"]
        ]
        if self._is_text:
            for name in ("label", "served"):
                columns[name] = [None if label is None else text_of(label) for label in columns[name]]
        return self._pa.record_batch(
            [self._pa.array(columns[field.name], field.type) for field in self.schema], schema=self.schema
        )


class Sink(io.RawIOBase):
    """Takes what is written until somebody takes it from here."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()
        self._taken = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def tell(self) -> int:
        return self._taken + len(self._written)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._taken += len(taken)
        self._written.clear()
        return taken


async def _parts(
    columns: Columns, writer: Any, sink: Sink, portions: AsyncIterator[list[PastRound]], rows: int
) -> AsyncIterator[bytes]:
    waiting: list[PastRound] = []
    values = 0
    async for some in portions:
        waiting += some
        values += sum(len(each.features) for each in some)
        if len(waiting) >= rows or values >= VALUES_MAX:
            yield await asyncio.to_thread(_written, columns, writer, sink, waiting)
            waiting, values = [], 0
    yield await asyncio.to_thread(_ended, columns, writer, sink, waiting)


def _written(columns: Columns, writer: Any, sink: Sink, rounds: list[PastRound]) -> bytes:
    writer.write_batch(columns.batch(rounds))
    return sink.take()


def _ended(columns: Columns, writer: Any, sink: Sink, rounds: list[PastRound]) -> bytes:
    if rounds:
        writer.write_batch(columns.batch(rounds))
    writer.close()
    return sink.take()


Version = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Time = Annotated[str | None, Query(max_length=64, description="such as 2026-01-31T12:00:00Z")]
Form = Annotated[Literal["ndjson", "arrow", "parquet"], Query(alias="format")]

FIRST_US, LAST_US = 0, 253_402_300_799_000_000
"""From 1970 to the year 9999."""

CONTENT = {
    NDJSON.decode(): {"schema": {"type": "string", "description": "one JSON object per line"}},
    **{media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()},
}

_encode = msgspec.json.Encoder().encode


def router(record: Record) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(404, 410, 422, 503))

    @routes.get("/models/{model}/history", response_class=Response, responses={200: {"content": CONTENT}})
    @access(Role.READ, tenants=True)
    async def rounds(
        model: ModelName,
        form: Form = "ndjson",
        from_version: Version = None,
        to_version: Version = None,
        since: Time = None,
        until: Time = None,
    ) -> Response:
        """The rounds that the journal keeps, oldest first: features, what was served, what was true.

        `from_version` and `to_version` are the versions after a round, both included; of times, `until` is not. Arrow
        and Parquet need the extra `arrow`.
        """
        wanted = Wanted(from_version, to_version, _time("since", since), _time("until", until))
        media_type = NDJSON.decode() if form == "ndjson" else MEDIA_TYPES[form]
        of, portions = await record.rounds(model, wanted)
        parts = (
            _lines(portions, prefix()) if form == "ndjson" else columnar(form, of, _owned(portions, prefix()))
        )
        return await BreakingOff.of(parts, media_type)

    return routes


def _time(field: str, text: str | None) -> int | None:
    """Microseconds since 1970; InvalidRequest unless it is a time with its zone."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        us = round(at.timestamp() * 1e6) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        us = None
    if us is None or not FIRST_US <= us <= LAST_US:
        raise InvalidRequest.at(field, "must be a time with a time zone, such as 2026-01-31T12:00:00Z")
    return us


async def _owned(portions: AsyncIterator[list[PastRound]], own: str) -> AsyncIterator[list[PastRound]]:
    """The rounds with ids as the caller knows them."""
    async for some in portions:
        yield [
            msgspec.structs.replace(
                each, prediction_id=each.prediction_id.removeprefix(own + OWNER_SEPARATOR)
            )
            if each.prediction_id is not None
            else each
            for each in some
        ]


async def _lines(portions: AsyncIterator[list[PastRound]], own: str) -> AsyncIterator[bytes]:
    async for some in _owned(portions, own):
        yield b"".join([_encode(_line(each)) + b"\n" for each in some])


def _line(each: PastRound) -> dict[str, Any]:
    line = msgspec.structs.asdict(each)
    line["at"], line["predicted_at"] = timestamp(each.at), timestamp(each.predicted_at)
    if not isinstance(each.features, dict):
        line["features"] = each.features.tolist()
    return line
