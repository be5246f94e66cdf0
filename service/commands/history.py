"""`novikoff history`: the rounds of a model as a file, for notebooks and databases."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from novikoff import Client
from service.commands.console import (
    Advance,
    CommandFailed,
    Key,
    KeyFile,
    Url,
    err,
    progress_bar,
    report_failures,
    service_key,
    service_url,
)
from service.engine.names import check_name

FORMATS = {".parquet": "arrow", ".arrow": "arrow", ".ndjson": "ndjson", ".jsonl": "ndjson"}
"""By the end of a file's name, what the service is asked for. Parquet is written here, so that rows can be counted."""

ROW_GROUP_ROWS = 50_000


def history(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    to: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help=f"Ends with {', '.join(FORMATS)}.")
    ],
    from_version: Annotated[
        int | None, typer.Option(min=0, help="The first version; the oldest kept.")
    ] = None,
    to_version: Annotated[int | None, typer.Option(min=0, help="The last version; the present one.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="2026-01-31T12:00:00Z, or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this.")] = None,
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
) -> None:
    """Write the rounds of a model to a file, for notebooks and databases."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        form = FORMATS.get(to.suffix)
        if form is None:
            raise CommandFailed(f"{to}: the name has to end with {', '.join(FORMATS)}")
        check_name("model", model)
        total = client.get_model(model).version - (from_version or 0)
        parts = client.history_bytes(
            model, format=form, from_version=from_version, to_version=to_version, since=since, until=until
        )
        unfinished = to.with_name(to.name + ".part")
        try:
            with progress_bar(total, "round") as advance:
                write = {".parquet": _write_parquet, ".arrow": _write_arrow}.get(to.suffix, _write_lines)
                rows = write(parts, unfinished, advance)
            unfinished.rename(to)
        finally:
            unfinished.unlink(missing_ok=True)
        err.print(f"{model}: {rows:,} rounds written to {to}", soft_wrap=True)


def _write_lines(parts: Iterator[bytes], file: Path, advance: Advance) -> int:
    rows = 0
    with file.open("wb") as out:
        for part in parts:
            out.write(part)
            rows += (more := part.count(b"\n"))
            advance(more)
    return rows


def _write_arrow(parts: Iterator[bytes], file: Path, advance: Advance) -> int:
    pa = _pyarrow()
    rows = 0
    with pa.ipc.open_stream(_Reading(parts)) as stream, pa.ipc.new_file(str(file), stream.schema) as out:
        for batch in stream:
            out.write_batch(batch)
            rows += batch.num_rows
            advance(batch.num_rows)
    return rows


def _write_parquet(parts: Iterator[bytes], file: Path, advance: Advance) -> int:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    rows, waiting = 0, list[Any]()
    with pa.ipc.open_stream(_Reading(parts)) as stream, pq.ParquetWriter(str(file), stream.schema) as out:
        for batch in stream:
            waiting.append(batch)
            rows += batch.num_rows
            advance(batch.num_rows)
            if sum(each.num_rows for each in waiting) >= ROW_GROUP_ROWS:
                out.write_table(pa.Table.from_batches(waiting))
                waiting.clear()
        if waiting:
            out.write_table(pa.Table.from_batches(waiting))
    return rows


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise CommandFailed(
            "Arrow and Parquet need the extra `arrow`: pip install pyarrow; .ndjson needs nothing"
        ) from None
    return pyarrow


class _Reading(io.RawIOBase):
    """Parts of an answer as a file that is read once."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts = parts
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces = [self._rest]
        have = len(self._rest)
        while size < 0 or have < size:
            part = next(self._parts, None)
            if part is None:
                break
            pieces.append(part)
            have += len(part)
        whole = b"".join(pieces)
        end = len(whole) if size < 0 else size
        self._rest = whole[end:]
        return whole[:end]
