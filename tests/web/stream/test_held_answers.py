"""Answers that wait for a client: all of them, in their order, in memory or on disk, and no more than allowed."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from service.runtime.byte_budget import ByteBudget
from service.web.problems import HttpError
from service.web.stream.held_answers import MEMORY_BYTES_MAX, AnswerFiles, HeldAnswers

ANSWER = b"x" * 10_000


async def taken_all(held: HeldAnswers) -> bytes:
    parts = []
    while part := await held.take():
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_is_faster_all_answers_come_in_their_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    files = AnswerFiles(ByteBudget(100_000_000), tmp_path)
    held = HeldAnswers(files)
    answers = [bytes([at % 256]) * random.randrange(1, 100_000) for at in range(300)]

    async def put_all() -> None:
        for answer in answers:
            await held.put(answer)
            if random.random() < 0.1:
                await asyncio.sleep(random.choice([0.0, 0.005]))
        held.end(b"the end")

    async def take_some() -> bytes:
        parts = []
        while part := await held.take():
            parts.append(part)
            if random.random() < 0.1:
                await asyncio.sleep(random.choice([0.0, 0.005]))
        return b"".join(parts)

    _, taken = await asyncio.gather(put_all(), take_some())
    assert taken == b"".join([*answers, b"the end"])
    held.close()
    assert files.budget.take(files.budget.bytes_max), "all room was given back"


async def test_what_was_read_takes_no_room(tmp_path: Path) -> None:
    """Ten times what may wait passes through, if its reader is never far behind."""
    files = AnswerFiles(ByteBudget(2_000_000), tmp_path)
    held = HeldAnswers(files)
    put = taken = 0
    while put < 10 * files.budget.bytes_max:
        await held.put(ANSWER)
        put += len(ANSWER)
        while put - taken > MEMORY_BYTES_MAX + 100_000:  # so that some of it is on disk, always
            taken += len(await held.take())
    held.end()
    assert taken + len(await taken_all(held)) == put
    held.close()


async def test_a_full_disk_room_is_told_and_what_waits_is_kept(tmp_path: Path) -> None:
    files = AnswerFiles(ByteBudget(100_000), tmp_path)
    held = HeldAnswers(files)
    put = 0
    with pytest.raises(HttpError) as refused:
        while put < 1_000:
            await held.put(ANSWER)
            put += 1
    assert refused.value.code == "answers-untaken" and "100000 bytes" in refused.value.detail
    held.end(b"the end")
    assert await taken_all(held) == ANSWER * put + b"the end"
    held.close()
    assert files.budget.take(files.budget.bytes_max)


async def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    files = AnswerFiles(ByteBudget(100_000), tmp_path / "nowhere")
    held = HeldAnswers(files)
    with pytest.raises(HttpError, match="cannot be buffered: no such file or directory"):
        for _ in range(1_000):
            await held.put(ANSWER)
    held.end()
    assert len(await taken_all(held)) >= MEMORY_BYTES_MAX
    held.close()
    assert files.budget.take(files.budget.bytes_max)


async def test_no_file_has_a_name(tmp_path: Path) -> None:
    held = HeldAnswers(AnswerFiles(ByteBudget(10_000_000), tmp_path))
    for _ in range(200):
        await held.put(ANSWER)
    assert not list(tmp_path.iterdir())
    held.close()
