"""Checks the streams of a cluster: reads every model as a replica does, and every message from the servers' copies."""

from collections.abc import AsyncIterator

from service.commands.console import CommandFailed, err, out
from service.commands.doctor.checks import BACKUP, Finding, Severity
from service.engine.fleet.loading import DAMAGE, restored_at_once
from service.errors import JournalUnavailable, ModelUnreadable
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.api import Api
from service.journal.protocol import Page
from service.journals import make_journal
from service.settings import Settings

AT_ONCE = 1_000
READINGS = 3
"""Any server answers a reading, so each stream is read more than once."""


async def examine_streams(settings: Settings) -> list[Finding]:
    journal = make_journal(settings)
    assert isinstance(journal, JetStreamJournal)
    await journal.open(lambda seq, event: None)
    try:
        with err.status("reading") as status:
            found = []
            async for name in _models(journal):
                status.update(f"replaying {name}")
                found += await _examine_model(journal, name)
            for stream in journal.streams:
                status.update(f"reading {stream}")
                found += await _examine_stream(journal.api, stream)
        return found
    except JournalUnavailable as error:
        raise CommandFailed(error.detail) from error
    finally:
        await journal.close()


async def _models(journal: JetStreamJournal) -> AsyncIterator[str]:
    page = Page(limit=AT_ONCE)
    while some := await journal.models(page):
        for listed in some:
            yield listed.model
        page = Page(limit=AT_ONCE, after=(some[-1].key, some[-1].model))


async def _examine_model(journal: JetStreamJournal, name: str) -> list[Finding]:
    try:
        stored = await journal.load(name)
        if stored is not None:
            restored_at_once(stored)
        after = 0
        while events := await journal.events(name, after=after, limit=AT_ONCE):
            after = events[-1].seq
    except ModelUnreadable as error:
        return [Finding(name, error.detail, BACKUP)]
    except DAMAGE as error:
        return [Finding(name, f"its events cannot be replayed: {error}", BACKUP)]
    return []


async def _examine_stream(api: Api, stream: str) -> list[Finding]:
    lacking = damaged = 0
    state = {}
    for _ in range(READINGS):
        state = await api.state(stream)
        before, count = api.damage_found, 0
        async for message in api.scan(stream, ">", after=0):
            if message.seq > state["last_seq"]:
                break
            count += 1
        damaged = max(damaged, api.damage_found - before)
        lacking = max(lacking, state["messages"] - count)
    out.print(f"{stream}: {state['messages']:,} messages", soft_wrap=True)
    if not lacking:
        return []
    why = f", {damaged} of them because their digests do not match" if damaged else ""
    return [
        Finding(
            stream,
            f"a server cannot read {lacking} of its {state['messages']:,} messages{why}",
            "Remove its copy; the server then gets a new one: see Damage on a cluster in docs/scaling.md.",
            severity=Severity.problem,
        )
    ]
