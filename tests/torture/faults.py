"""Calls of the disk that fail, one after the other: what was refused is not there, and what is in doubt at most once.

A client sends rounds, one after the other, while the n-th write, sync or truncation of the writing process fails, and
perhaps some more. Whatever it was told has to be true of the directory that is left, after a kill or a power cut.
"""

import fcntl
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from service.engine.engine import Engine
from service.engine.fleet.live import Live, model_from
from service.errors import OutcomeUnknown, StartError, Unavailable, UnknownModel
from service.events import AnyEvent, RoundLearned, RoundRevealed
from service.journal.codec import decode_event, encode
from tests.torture import recording
from tests.torture.checking import Verdict, demand
from tests.torture.cuts import CUTS
from tests.torture.disk import Disk
from tests.torture.engines import Plan, engine_over, journal_at
from tests.torture.forked import run_forked, write_image
from tests.torture.operations import AnyOperation, Note, read_log
from tests.torture.points import Account
from tests.torture.recorded import check_complete
from tests.torture.recording import CALLS, Fault
from tests.torture.truth import APPLIED

PLAN = Plan(events_kept_max=10_000, pending_max=100)
ROUNDS = 16
MODELS = ("m", "n")
BLOCKS = (0, 0, 100, 40)
"""How many rounds are learned in one block before each round, by turns. If both blocks fail, the log has two commits of
which the first is the longer, and those that come next overwrite but a part of either."""
ANSWERED, REFUSED, DOUBTED = "answered", "refused", "doubted"
"""What the client was told of a round: it is learned; nothing was learned; nobody knows."""

CUTS_EACH = 4
"""How often a recording is cut off."""

FOREVER = 10**9
CALLS_THAT_FAIL = ("write", "sync", "truncate")


async def _send_rounds(engine: Engine) -> None:
    """A round after the other, half of them in two requests; a note of what came of each."""
    assert recording.recorder is not None
    note = recording.recorder.note
    for number in range(ROUNDS):
        identity, model = f"round-{number}", MODELS[number % len(MODELS)]
        try:
            await _send(engine, model, identity, number)
            note(ANSWERED, identity)
        except OutcomeUnknown:
            note(DOUBTED, identity)
        except Unavailable:
            note(REFUSED, identity)


async def _send(engine: Engine, model: str, identity: str, number: int) -> bool:
    """Whether it was learned before."""
    features, label = [1.0, float(number % 5), -1.0] * 33, 1 if number % 3 else -1
    if block := BLOCKS[number % len(BLOCKS)]:
        await engine.blocks.learn(model, [features] * block, [label] * block)
    if number % 4 < 2:
        return (await engine.rounds.learn(model, features, label, identity)).replayed
    await engine.rounds.predict(model, features, identity)
    return (await engine.rounds.reveal(identity, label)).replayed


def record_with_fault(where: Path, fault: Fault | None) -> list[AnyOperation]:
    """Record the client and its service, in processes forked from this one, until the client has no more to send."""
    directory, log = where / "data", where / "log"
    directory.mkdir(parents=True)

    async def run() -> Verdict:
        recording.install(directory, log, fault)
        assert recording.recorder is not None
        note = recording.recorder.note
        engine = engine_over(
            journal_at(directory, PLAN, lambda seq, e: note(APPLIED, (seq, encode(e)))), PLAN
        )
        await engine.open()
        await _send_rounds(engine)
        return Verdict([])  # which ends the process, and nothing is closed

    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
        directory.mkdir()
    ended = run_forked(run)
    assert ended.wrong is None or "died" in ended.wrong, ended
    with (directory / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the writing process has ended, too
    operations = read_log(log)
    check_complete(operations, directory)
    return operations


@dataclass(slots=True)
class Told:
    """What the client knew when it was cut off."""

    applied: dict[int, AnyEvent] = field(default_factory=dict)
    rounds: dict[str, str] = field(default_factory=dict)
    """What it was told of each, by id."""

    def follow(self, operation: AnyOperation) -> None:
        match operation:
            case Note(kind="applied", content=(int(seq), bytes(body))):
                self.applied[seq] = decode_event(body)
            case Note(kind="answered" | "refused" | "doubted" as kind, content=str(identity)):
                self.rounds[identity] = kind


async def check_told(directory: Path, told: Told) -> Verdict:
    """Open what is left; whatever the client was told has to be true, and what it sends again counts once."""
    try:
        journal = journal_at(directory, PLAN)
        engine = engine_over(journal, PLAN)
        await engine.open()
    except StartError as error:
        return Verdict([error.detail])
    found: dict[int, AnyEvent] = {}
    for model in MODELS:
        recorded = await journal.events(model, after=0, limit=-1) if await _is_there(engine, model) else []
        found |= {one.seq: one.event for one in recorded}
        if recorded:
            folded = Live(model_from(recorded[0].event), recorded[0].seq, recorded[0].seq)
            for one in recorded[1:]:
                folded.apply(one.seq, one.event)
            served = (await engine.models.get(model)).model.to_bytes()
            demand(served == folded.model.to_bytes(), f"{model} is not what its events make")
    for seq, event in told.applied.items():
        demand(found.get(seq) == event, f"event {seq} was applied, and {found.get(seq)} is there")
    learned = [
        event.prediction_id for event in found.values() if isinstance(event, RoundLearned | RoundRevealed)
    ]
    demand(len(set(learned)) == len(learned), f"learned twice: {learned}")
    for number in range(ROUNDS):
        identity = f"round-{number}"
        told_so = told.rounds.get(identity)
        demand(not (told_so == REFUSED and identity in learned), f"{identity} was refused, and is there")
        demand(
            not (told_so == ANSWERED and identity not in learned),
            f"{identity} was answered, and is not there",
        )
        is_known = await _send(engine, MODELS[number % len(MODELS)], identity, number)
        demand(is_known == (identity in learned), f"{identity} was sent again, and known: {is_known}")
    await engine.close()
    return Verdict([])


async def _is_there(engine: Engine, model: str) -> bool:
    try:
        await engine.models.get(model)
    except UnknownModel:
        return False
    return True


def try_faults(
    where: Path, points: int, seed: str, kinds: Sequence[str] = CALLS_THAT_FAIL, *, first: bool = False
) -> tuple[Account, Counter[str]]:
    """Let chosen calls fail, and cut each recording off at some places; also what the client was told."""
    chance = random.Random(seed)
    account, told = Account(), Counter[str]()
    calls = _calls(record_with_fault(where / "sound", None))
    for number in range(points // CUTS_EACH):
        call = chance.choice([call for call in kinds if calls.get(call)])
        fault = Fault(
            call,
            chance.randint(1, calls[call]),
            chance.choice((*range(1, 10), FOREVER)),
            chance.choice(("io", "full")),
        )
        log = record_with_fault(where / str(number), fault)
        shutil.rmtree(where / str(number))
        if first and account.wrongs:
            break
        told += Counter(_try_cuts(log, fault, where / "work", chance, account).rounds.values())
    return account, told


def _try_cuts(log: list[AnyOperation], fault: Fault, work: Path, chance: Random, account: Account) -> Told:
    disk, told, done = Disk(), Told(), 0
    for at in _places(log, chance):
        while done < at:
            disk.follow(log[done])
            told.follow(log[done])
            done += 1
        way = chance.choice(list(CUTS))
        shutil.rmtree(work, ignore_errors=True)
        write_image(work, CUTS[way](disk, chance))
        ended = run_forked(lambda: check_told(work, told))
        account.add(f"{fault} at {at}", way, ended, may_refuse=False)
    return told


def _places(log: list[AnyOperation], chance: Random) -> list[int]:
    """Half of them right after the client was told that something has failed, or that the next has not."""
    kinds = (ANSWERED, REFUSED, DOUBTED)
    notes = [(at, one.kind) for at, one in enumerate(log, 1) if isinstance(one, Note) and one.kind in kinds]
    failed = [kind != ANSWERED for _, kind in notes]
    told = [at for (at, _), *near in zip(notes, failed, [False, *failed], strict=False) if any(near)]
    half = CUTS_EACH // 2
    anywhere = range(1, len(log) + 1)
    return sorted([*chance.choices(told or anywhere, k=half), *chance.choices(anywhere, k=CUTS_EACH - half)])


def _calls(log: list[AnyOperation]) -> dict[str, int]:
    """How many calls of each kind there are if none fails."""
    for operation in log:
        if isinstance(operation, Note) and operation.kind == CALLS:
            return dict(operation.content)
    raise AssertionError("the writing process has not told")
