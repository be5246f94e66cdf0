"""`novikoff export`, `import` and `history`: models and their rounds as files."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from novikoff import Client
from novikoff.errors import Refused
from service.commands.console import (
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

HISTORY_FORMATS = {".parquet": "parquet", ".arrow": "arrow", ".ndjson": "ndjson", ".jsonl": "ndjson"}
"""The format requested for a suffix."""


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
        try:
            info = client.import_model(name, export)
        except Refused as refused:
            if refused.code != "model-exists":
                raise
            raise CommandFailed(
                f"the model {name!r} already exists; choose another name with --model"
            ) from None
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
        if form == "arrow":
            _pyarrow()
        parts = client.history_bytes(
            model, format=form, from_version=from_version, to_version=to_version, since=since, until=until
        )
        unfinished = to.with_name(to.name + ".part")
        try:
            with progress_bar(None, "byte") as advance, unfinished.open("wb") as out:
                for part in parts:
                    out.write(part)
                    advance(len(part))
            if form == "arrow":
                _as_arrow_file(unfinished)
            unfinished.rename(to)
        finally:
            unfinished.unlink(missing_ok=True)
        err.print(f"{model}: {to.stat().st_size:,} bytes written to {to}", soft_wrap=True)


def _as_arrow_file(streamed: Path) -> None:
    """Make the Arrow stream in a file an Arrow file, which can be read from any place."""
    pa = _pyarrow()
    converted = streamed.with_name(f"{streamed.name}.converted")
    try:
        with (
            pa.OSFile(str(streamed)) as source,
            pa.ipc.open_stream(source) as batches,
            pa.ipc.new_file(str(converted), batches.schema) as out,
        ):
            for batch in batches:
                out.write_batch(batch)
        converted.rename(streamed)
    finally:
        converted.unlink(missing_ok=True)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise CommandFailed(
            "Arrow files need the extra `arrow`: pip install pyarrow; .parquet and .ndjson need no extra"
        ) from None
    return pyarrow
