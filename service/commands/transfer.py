"""`novikoff export`, `import` and `history`: models and their rounds as files."""

import io
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
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

HISTORY_FORMATS = {".parquet": "arrow", ".arrow": "arrow", ".ndjson": "ndjson", ".jsonl": "ndjson"}
"""The format requested for a suffix. Parquet is written here from Arrow, so that progress can be shown."""

ROW_GROUP_ROWS = 50_000


class Form(StrEnum):
    novikoff = "novikoff"
    sklearn = "sklearn"
    onnx = "onnx"


def export_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: standard output.")] = None,
    format: Annotated[
        Form,
        typer.Option(
            help="novikoff: can be imported again; sklearn, onnx: a linear model for other programs."
        ),
    ] = Form.novikoff,
) -> None:
    """Write a model to a file: settings, weights and statistics."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        check_name("model", model)
        exported = client.export_model(model, format=format)
        if to is None:
            sys.stdout.buffer.write(exported)
        else:
            to.write_bytes(exported)
            err.print(f"{model}: {len(exported):,} bytes written to {to}", soft_wrap=True)


def import_model(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file written by `novikoff export`; - is standard input.")
    ],
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Default: the name in the file.")] = None,
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
) -> None:
    """Create a model from an export. An existing model is never changed."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        export = _read(file)
        name = model or _name(file, export)
        check_name("model", name)
        info = client.import_model(name, export)
        err.print(f"{info.model}: version {info.version}, created from {file}", soft_wrap=True)


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None


def _name(file: str, export: bytes) -> str:
    """The name of the exported model."""
    try:
        return msgspec.json.decode(export, type=_Named).name
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CommandFailed(f"{file} is not an export: {error}") from None


class _Named(msgspec.Struct):
    name: str


def history(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    to: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"The file, in the format of its suffix: {', '.join(HISTORY_FORMATS)}.",
        ),
    ],
    from_version: Annotated[
        int | None, typer.Option(min=0, help="The first version. Default: the oldest retained.")
    ] = None,
    to_version: Annotated[
        int | None, typer.Option(min=0, help="The last version. Default: the current one.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Rounds since this time, such as 2026-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Rounds before this time.")] = None,
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
) -> None:
    """Write the rounds of a model to a file, for notebooks and databases."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        form = HISTORY_FORMATS.get(to.suffix)
        if form is None:
            raise CommandFailed(f"{to}: the name must end with {', '.join(HISTORY_FORMATS)}")
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
            "Arrow and Parquet need the extra `arrow`: pip install pyarrow; .ndjson needs no extra"
        ) from None
    return pyarrow


class _Reading(io.RawIOBase):
    """The parts of a response as a file object."""

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
