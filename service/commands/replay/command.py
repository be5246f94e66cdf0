"""The command: from its options to the final table."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import httpx
import typer
from rich.logging import RichHandler
from typer import Argument, Option

from novikoff import AsyncClient, ModelInfo
from novikoff.schemas import Label
from service.app import create_app
from service.commands.console import (
    CommandFailed,
    Key,
    KeyFile,
    counted,
    err,
    out,
    progress_bar,
    report_failures,
    service_key,
)
from service.commands.replay.comparison import NOTE, Comparison, contestants, settings_in
from service.commands.replay.examples import Source, Survey, settings_for, shape_for
from service.commands.replay.readers import Format
from service.commands.replay.rounds import Rounds, find_model
from service.commands.replay.terminal import Interrupt, Tally, summary
from service.engine.names import check_name
from service.runtime import environment
from service.settings import load_settings

INTERRUPTED = 130
LABELS_SHOWN = 5


def replay(
    file: Annotated[
        str, Argument(metavar="FILE", help="The file of examples, plain or gzip; - is standard input.")
    ],
    model: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The model that learns; it is created if it does not exist."
            " With --compare, the prefix of the new models' names.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help=f"A running service. Default: {environment.URL} in the environment, unless --data is given;"
            " else a service within this process.",
        ),
    ] = None,
    key: Key = None,
    key_file: KeyFile = None,
    data: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Without --url: the data directory of the service within this process. Default: a temporary one.",
        ),
    ] = None,
    format: Annotated[Format | None, Option(help="Default: by the file's name.")] = None,
    label: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The label's column. Default: label, y, target, class, outcome, else the last one.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        Option(metavar="NAMES", help="The features' columns, comma-separated. Default: all but the label."),
    ] = None,
    settings: Annotated[
        str | None, Option(metavar="JSON", help="""Settings of a new model: '{"features": "named"}'.""")
    ] = None,
    delay: Annotated[int, Option(min=0, metavar="N", help="Reveal each label N predictions later.")] = 0,
    fast: Annotated[
        bool, Option("--fast", help="Faster, without ids: a row that is sent twice is learned twice.")
    ] = False,
    one_by_one: Annotated[
        bool,
        Option(
            "--one-by-one", help="Send one request per row, as a program that acts on each prediction does."
        ),
    ] = False,
    resume: Annotated[bool, Option("--resume", help="Continue after the model's last round.")] = False,
    run: Annotated[str, Option(metavar="NAME", help="Another name learns the same rows again.")] = "",
    compare: Annotated[
        list[str] | None,
        Option(
            metavar="SETTINGS",
            help="Play the file to several new models and compare their errors with the first one's: `usual`,"
            " or algorithms, comma-separated, each with options of its features (auto,pa1,arow+standardize+fourier;"
            " also +crosses), or a model's settings as JSON. May be repeated.",
        ),
    ] = None,
) -> None:
    """Play a file's examples to a model, one round each, and show its error rate.

    Rows are sent as a stream, many in one request. A replay can be run twice:
    a row that was learned is not learned again. After an interruption (Ctrl-C
    or an error), --resume continues. With --fast, rows have no ids: --resume
    then goes by their number alone.

    Which settings are best for a file? novikoff replay FILE --compare usual
    plays it to several new models and compares their error rates.
    """
    with report_failures():
        if url is None and data is None:
            url = os.environ.get(environment.URL) or None
        is_kept = url is not None or data is not None
        given = {"delay": delay, "fast": fast, "one-by-one": one_by_one, "resume": resume, "run": run}
        if compare:
            for name, value in given.items():
                if value:
                    raise CommandFailed(f"--compare plays whole rounds to new models, without --{name}")
        elif model is None:
            raise CommandFailed(
                "name the model that learns with --model NAME, or try several settings with --compare"
            )
        if resume and not is_kept:
            raise CommandFailed("--resume needs --url or --data: without them the last run was not saved")
        if fast and delay:
            raise CommandFailed("--fast sends whole rounds, so it cannot be used with --delay")
        if fast and one_by_one:
            raise CommandFailed("--fast and --one-by-one exclude each other")
        check_name("model", model or "compare")
        wanted = settings_in(settings or "{}", "--settings")
        connection = connected(url, service_key(key, key_file), data)
        columns = [name.strip() for name in features.split(",")] if features else []
        with closing(Source(file, format, label, columns)) as source, Interrupt() as interrupt:
            if compare:
                playing = _compare(compare, model or "compare", wanted, source, connection, interrupt)
            else:
                assert model is not None
                playing = _play(
                    model, wanted, source, connection, interrupt,
                    delay=delay, one_by_one=one_by_one, resume=resume, run=run,
                    # Where nothing is kept, no second run can meet the same ids.
                    with_ids=not fast and (is_kept or delay > 0 or one_by_one),
                )  # fmt: skip
            asyncio.run(playing)
    if interrupt.is_set:
        raise typer.Exit(INTERRUPTED)


@asynccontextmanager
async def connected(url: str | None, key: str | None, data: Path | None) -> AsyncIterator[AsyncClient]:
    """A client of the service at `url`; without one, of a service within this process.

    Without `data` either, that uses a temporary directory.
    """
    if url is not None:
        async with AsyncClient(url, key=key) as client:
            yield client
    elif data is not None:
        async with _own_service(data, durability=None) as client:
            yield client
    else:
        with TemporaryDirectory(prefix="novikoff-") as directory:
            async with _own_service(Path(directory), durability="process") as client:
                yield client


@asynccontextmanager
async def _own_service(data: Path, *, durability: str | None) -> AsyncIterator[AsyncClient]:
    settings = load_settings(data=data, durability=durability, otlp_endpoint="")
    app = create_app(settings, guarded=False)
    async with (
        app.router.lifespan_context(app),  # the transport would not run it
        AsyncClient("http://in-process", transport=httpx.ASGITransport(app)) as client,
    ):
        yield client


async def _play(
    model: str,
    settings: dict[str, Any],
    source: Source,
    connection: AbstractAsyncContextManager[AsyncClient],
    interrupt: Interrupt,
    *,
    delay: int,
    one_by_one: bool,
    resume: bool,
    run: str,
    with_ids: bool,
) -> None:
    async with connection as client:
        info = await find_model(client, model)
        # The rows of a stream may come slowly: do not wait for many of them without need.
        survey = None if source.is_stream and info is not None else source.survey()
        out.print(_source_line(source, survey), soft_wrap=True)
        is_new = info is None
        if info is None:
            assert survey is not None
            info = await client.create_model(model, **settings_for(source, survey, settings))
        rounds_before = 0 if is_new else (await client.stats(model)).rounds.revealed
        skipped = rounds_before if resume else 0
        out.print(_model_line(info, is_new, skipped), soft_wrap=True)
        rounds = Rounds(
            client, model, shape_for(info, source),
            run=run, delay=delay, with_ids=with_ids, is_stopped=lambda: interrupt.is_set,
        )  # fmt: skip
        examples = interrupt.reading(source.examples())
        await rounds.skip(examples, skipped)
        tally = Tally(rounds_before)
        outcomes = rounds.play_one_by_one(examples) if one_by_one else rounds.play(examples, source.has_more)
        try:
            with progress_bar(survey.rows if survey else None, "round", skipped) as advance, _logs_above():
                async for outcome in outcomes:
                    advance(1, tally.add(outcome))
        finally:
            stats = await client.stats(model)
            out.print(summary(stats, tally, is_complete=not interrupt.is_set))


async def _compare(
    names: list[str],
    prefix: str,
    settings: dict[str, Any],
    source: Source,
    connection: AbstractAsyncContextManager[AsyncClient],
    interrupt: Interrupt,
) -> None:
    survey = source.survey()
    out.print(_source_line(source, survey), soft_wrap=True)
    chosen = contestants(names, settings_for(source, survey, settings))
    async with connection as client:
        comparison = Comparison(client)
        await comparison.make(prefix, chosen, source)
        with progress_bar(survey.rows, "row") as advance:
            await comparison.play(interrupt.reading(source.examples()), advance)
        out.print(await comparison.table())
    out.print(NOTE, soft_wrap=True)


@contextmanager
def _logs_above() -> Iterator[None]:
    """Show warnings of a service within this process, such as a drift, above the progress bar."""
    handler = RichHandler(console=err, show_time=False, show_path=False, markup=False)
    log = logging.getLogger("service")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _source_line(source: Source, survey: Survey | None) -> str:
    label = f"label `{source.label}`" + (" (guessed)" if source.is_guess else "")
    if survey is None:
        return f"{source.file}: {source.format}, rows in file order, {counted(len(source.first), 'feature')}, {label}"
    rows = "rows in file order" if survey.rows is None else counted(survey.rows, "row")
    features = counted(survey.features, "feature")
    return f"{source.file}: {source.format}, {rows}, {features}, {label}: {_shown(survey.labels)}"


def _model_line(info: ModelInfo, is_new: bool, skipped: int) -> str:
    state = "new model" if is_new else f"existing model, version {info.version}"
    resumed = f"; continuing after row {skipped:,}" if skipped else ""
    algorithm = info.settings["learner"]["algorithm"]
    labels = info.settings["labels"]
    classes = "classes appear as they are revealed" if labels is None else f"labels {_shown(labels)}"
    return f"{info.model}: {state}, {algorithm}, {info.features_kind} features, {classes}{resumed}"


def _shown(labels: list[Label]) -> str:
    more = f" and {len(labels) - LABELS_SHOWN} more" if len(labels) > LABELS_SHOWN else ""
    return ", ".join(map(repr, labels[:LABELS_SHOWN])) + more
