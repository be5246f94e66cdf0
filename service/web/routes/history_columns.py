"""Rounds as columns: Arrow streams and Parquet files, written while they are sent. Needs the extra `arrow`."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

from service.engine.models.labels import text_of
from service.engine.models.model import Model
from service.engine.replay.record import PastRound
from service.errors import InvalidRequest

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
