"""`novikoff export` and `novikoff import`: a model as a file."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from novikoff import Client
from service.commands.console import (
    CommandFailed,
    Key,
    KeyFile,
    Url,
    err,
    report_failures,
    service_key,
    service_url,
)
from service.engine.names import check_name


class Form(StrEnum):
    novikoff = "novikoff"
    sklearn = "sklearn"
    onnx = "onnx"


def export_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="By default standard output.")] = None,
    format: Annotated[
        Form, typer.Option(help="sklearn and onnx: a linear model for others.")
    ] = Form.novikoff,
) -> None:
    """Write all that a model is to a file: settings, weights, statistics."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        check_name("model", model)
        exported = client.export_model(model, format=format)
        if to is None:
            sys.stdout.buffer.write(exported)
        else:
            to.write_bytes(exported)
            err.print(f"{model}: {len(exported):,} bytes written to {to}", soft_wrap=True)


def import_model(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - is standard input.")],
    model: Annotated[str | None, typer.Option(metavar="NAME", help="By default the name it had.")] = None,
    url: Url = None,
    key: Key = None,
    key_file: KeyFile = None,
) -> None:
    """Make a model from an export. An existing one is never changed."""
    with report_failures(), Client(service_url(url), key=service_key(key, key_file)) as client:
        export = _read(file)
        name = model or _name(file, export)
        check_name("model", name)
        info = client.import_model(name, export)
        err.print(f"{info.model}: version {info.version}, made from {file}", soft_wrap=True)


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None


def _name(file: str, export: bytes) -> str:
    """The name that the model had."""
    try:
        return msgspec.json.decode(export, type=_Named).name
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CommandFailed(f"{file} is not an export: {error}") from None


class _Named(msgspec.Struct):
    name: str
