"""Damage at random places, and a repair: all is there to the bit, or it exits with 1 and names what is not."""

import random
import shutil
from pathlib import Path

from tests.commands.repaired import JOURNAL, PAGE_BYTES, content_of
from tests.commands.running import novikoff
from tests.commands.test_repair import Sources, sources

__all__ = ["sources"]  # the fixture

PLACES = 60


def damage(file: Path, chance: random.Random) -> str:
    content = bytearray(file.read_bytes())
    how = chance.choice(("bit", "bit", "head", "sector", "page"))
    at = chance.randrange(len(content))
    if how == "head":  # where a page tells what is in it
        at = min(at // PAGE_BYTES * PAGE_BYTES + chance.randrange(200), len(content) - 1)
    size = {"sector": 512, "page": PAGE_BYTES}.get(how)
    if size is None:
        content[at] ^= 1 << chance.randrange(8)
    else:
        at = at // size * size
        content[at : at + size] = bytes(len(content[at : at + size]))
    file.write_bytes(content)
    return f"{file.name} {how} {at}"


def test_after_any_damage_all_is_there_or_what_is_not_is_told(sources: Sources, tmp_path: Path) -> None:
    chance = random.Random(15)
    for number in range(PLACES):
        name = chance.choice(("stopped", "killed"))
        truth = sources.truths[name]
        data = Path(shutil.copytree(sources.where / name, tmp_path / str(number)))
        file = f"{JOURNAL}-wal" if name == "killed" and chance.random() < 0.7 else JOURNAL
        where = f"{name} {damage(data / file, chance)}"
        before = (data / JOURNAL).read_bytes()
        ended = novikoff("doctor", "--data", data, "--repair")
        said = f"{where}: {ended.status}\n{ended.out}{ended.err}"
        assert ended.status in (0, 1), said
        aside = data / f"{JOURNAL}.damaged"
        assert (aside if aside.exists() else data / JOURNAL).read_bytes() == before, said
        if not aside.exists() and ended.status:  # refused, and left as it was
            assert "problem" in ended.out or "novikoff: " in ended.err, said
            continue
        found = content_of(data)
        if ended.status == 0:
            assert found == truth, said
            continue
        assert found.models.keys() <= truth.models.keys(), said
        for model, state in found.models.items():
            # Other than it was only if events are named that it does not have any more.
            assert state in (None, truth.models[model]) or "discarded: all events" in ended.out, said
        for waiting in truth.pending.keys() - found.pending.keys():
            assert repr(waiting) in ended.out or "nobody knows" in ended.out or " more" in ended.out, said
        if truth.events.keys() - found.events.keys():
            assert "event" in ended.out.split("given up", 1)[-1], said
        shutil.rmtree(data)
