"""The command: from its options to the final table."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import typer
from rich.logging import RichHandler

from novikoff import AsyncClient, ModelInfo, Refused
from novikoff.schemas import Label
from service.commands.console import (
    CommandFailed,
    Key,
    KeyFile,
    counted,
    err,
    out,
    report_failures,
    service_key,
)
from service.commands.replay import options
from service.commands.replay.comparison import Comparison
from service.commands.replay.contestants import contestants
from service.commands.replay.interrupting import Interrupt
from service.commands.replay.making import settings_for, shape_for
from service.commands.replay.progress import Tally, bar, plain_bar, summary
from service.commands.replay.rounds import Rounds
from service.commands.replay.source import Source
from service.commands.replay.survey import Survey
from service.commands.target import connected
from service.engine.names import check_name
from service.runtime import environment

INTERRUPTED = 130
LABELS_SHOWN = 5

NOTE = (
    "Each row was predicted before it was learned. Errors are in truth `between` the two at 95% confidence,"
    " however often one looks. `against` is in points, + errs more, 95% for all together; ? is too few rows to tell."
)


@dataclass(frozen=True, slots=True)
class Plan:
    model: str
    settings: dict[str, Any]
    delay: int
    fast: bool
    one_by_one: bool
    resume: bool
    run: str


def replay(
    file: options.File,
    model: options.Model = None,
    url: options.Service = None,
    key: Key = None,
    key_file: KeyFile = None,
    data: options.Data = None,
    format: options.FormatChoice = None,
    label: options.LabelColumn = None,
    features: options.FeatureColumns = None,
    settings: options.ModelSettings = None,
    delay: options.Delay = 0,
    fast: options.Fast = False,
    one_by_one: options.OneByOne = False,
    resume: options.Resume = False,
    run: options.Run = "",
    compare: options.Compare = None,
) -> None:
    """Play a file's examples to a model, one round each, and show how it did.

    Rows are sent as a stream, many in one request. A replay may be run twice:
    a row that was learned is not learned again. One that broke off, or was
    stopped with Ctrl-C, goes on with --resume. With --fast, rows have no ids:
    --resume then goes by their count alone.

    Which settings are best for a file? novikoff replay FILE --compare usual
    plays it to several new models and shows who errs how often.
    """
    with report_failures():
        if url is None and data is None:
            url = os.environ.get(environment.URL) or None
        connection = connected(url, service_key(key, key_file), data)
        if compare:
            given = {"delay": delay, "fast": fast, "one-by-one": one_by_one, "resume": resume, "run": run}
            _refuse_beside_compare(given)
            with closing(Source(file, format, label, _names(features))) as source, Interrupt() as interrupt:
                asyncio.run(
                    _compare(compare, model or "compare", _settings(settings), source, connection, interrupt)
                )
            if interrupt.is_set:
                raise typer.Exit(INTERRUPTED)
            return
        if model is None:
            raise CommandFailed("--model NAME says which model learns; --compare tries several settings")
        if resume and url is None and data is None:
            raise CommandFailed("--resume needs --url or --data: otherwise nothing was kept")
        if fast and delay:
            raise CommandFailed("--fast sends whole rounds, and --delay needs two halves")
        if url is None and data is None and not (delay or one_by_one):
            fast = True  # nothing is kept that a second run could meet
        if fast and one_by_one:
            raise CommandFailed("--fast and --one-by-one are opposites")
        check_name("model", model)
        plan = Plan(model, _settings(settings), delay, fast, one_by_one, resume, run)
        with closing(Source(file, format, label, _names(features))) as source, Interrupt() as interrupt:
            asyncio.run(_run(plan, source, connection, interrupt))
    if interrupt.is_set:
        raise typer.Exit(INTERRUPTED)


async def _run(
    plan: Plan, source: Source, connection: AbstractAsyncContextManager[AsyncClient], interrupt: Interrupt
) -> None:
    async with connection as client:
        info = await _find(client, plan.model)
        # The rows of a stream may come slowly: do not wait for many of them without need.
        survey = None if source.is_stream and info is not None else source.survey()
        out.print(_source_line(source, survey), soft_wrap=True)
        is_new = info is None
        if info is None:
            assert survey is not None
            info = await client.create_model(plan.model, **settings_for(source, survey, plan.settings))
        rounds_before = 0 if is_new else (await client.stats(plan.model)).rounds.revealed
        skipped = rounds_before if plan.resume else 0
        out.print(_model_line(info, is_new, skipped), soft_wrap=True)
        shape = shape_for(info, source)
        rounds = Rounds(client, plan.model, shape, run=plan.run, delay=plan.delay, with_ids=not plan.fast)
        examples = interrupt.reading(source.examples())
        await rounds.skip(examples, skipped)
        tally = Tally(rounds_before)
        try:
            with bar(survey.rows if survey else None, skipped, tally) as advance, _logs_above():
                outcomes = (
                    rounds.play_one_by_one(examples, lambda: interrupt.is_set)
                    if plan.one_by_one
                    else rounds.play(examples, lambda: interrupt.is_set, source.has_more)
                )
                async for outcome in outcomes:
                    tally.add(outcome)
                    advance()
        finally:
            stats = await client.stats(plan.model)
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
        with plain_bar(survey.rows) as advance:
            examples = interrupt.reading(source.examples())
            await comparison.play(examples, lambda: interrupt.is_set, advance)
        out.print(await comparison.table())
    out.print(NOTE, soft_wrap=True)


def _refuse_beside_compare(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value:
            raise CommandFailed(f"--compare plays whole rounds to new models, without --{name}")


async def _find(client: AsyncClient, model: str) -> ModelInfo | None:
    try:
        return await client.get_model(model)
    except Refused as refused:
        if refused.code != "unknown-model":
            raise
        return None


@contextmanager
def _logs_above() -> Iterator[None]:
    """Warnings of a service within this process, such as a drift, above the bar."""
    handler = RichHandler(console=err, show_time=False, show_path=False, markup=False)
    log = logging.getLogger("service")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _source_line(source: Source, survey: Survey | None) -> str:
    guessed = " (guessed)" if source.layout.is_guess else ""
    label = f"label `{source.layout.label}`{guessed}"
    if survey is None:
        return f"{source.file}: {source.format}, rows as they come, {counted(len(source.first), 'feature')}, {label}"
    rows = "rows as they come" if survey.rows is None else counted(survey.rows, "row")
    features = counted(survey.features, "feature")
    return f"{source.file}: {source.format}, {rows}, {features}, {label}: {_shown(survey.labels)}"


def _model_line(info: ModelInfo, is_new: bool, skipped: int) -> str:
    made = "made now" if is_new else f"there already, version {info.version}"
    going_on = f"; going on after row {skipped:,}" if skipped else ""
    algorithm = info.settings["learner"]["algorithm"]
    labels = info.settings["labels"]
    classes = "classes as they are revealed" if labels is None else f"labels {_shown(labels)}"
    return f"{info.model}: {made}, {algorithm}, {info.features_kind} features, {classes}{going_on}"


def _shown(labels: list[Label]) -> str:
    more = f" and {len(labels) - LABELS_SHOWN} more" if len(labels) > LABELS_SHOWN else ""
    return ", ".join(map(repr, labels[:LABELS_SHOWN])) + more


def _names(features: str | None) -> list[str]:
    return [name.strip() for name in features.split(",")] if features else []


def _settings(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CommandFailed(f"--settings is not a JSON object: {error}") from None
