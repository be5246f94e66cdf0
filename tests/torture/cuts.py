"""Ways in which a recorded service may come to its end, and what may be wrong with the disk beyond that."""

import random
from collections.abc import Callable

from service.journal.sqlite.acknowledged import FRAME_HEADER_BYTES, LOG_HEADER_BYTES
from service.journal.sqlite.soundness import frames_followed
from tests.torture.disk import SECTOR_BYTES, Disk, Image

PAGE_BYTES = 8192
LOG = "journal.sqlite-wal"

Cut = Callable[[Disk, random.Random], Image]


def killed(disk: Disk, chance: random.Random) -> Image:
    """The process ends, and the system goes on: all that was written is there."""
    return disk.cached()


def cut_off(disk: Disk, chance: random.Random) -> Image:
    """The power goes, and nothing that was not synced is there."""
    return disk.image(chance, 0.0, in_order=True)


def torn(disk: Disk, chance: random.Random) -> Image:
    """The power goes amid the writes: the first of them are there, down to a sector."""
    return disk.image(chance, chance.random(), in_order=True)


def reordered(disk: Disk, chance: random.Random) -> Image:
    """The power goes, and any of the sectors that were not synced are there."""
    return disk.image(chance, chance.choice((0.1, 0.5, 0.9, 0.99)), in_order=False)


CUTS: dict[str, Cut] = {one.__name__: one for one in (killed, cut_off, torn, reordered)}
"""All that a sound disk may do."""


def turned_bit(disk: Disk, chance: random.Random) -> Image:
    """One bit of a file is not what was written."""

    def turn(content: bytearray) -> None:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)

    return _damaged(disk, chance, turn)


def turned_in_log(disk: Disk, chance: random.Random) -> Image:
    """The power goes, so that the note of what was acknowledged is old or gone, and one bit of the log is not what was
    written: before the frame that ends the last commit but one. What comes later may pass for one that was cut off."""
    image = torn(disk, chance)
    frames = frames_followed(image.get(LOG, b""))
    if frames:
        content = bytearray(image[LOG])
        end = LOG_HEADER_BYTES + (frames - 1) * (FRAME_HEADER_BYTES + PAGE_BYTES)
        content[chance.randrange(end)] ^= 1 << chance.randrange(8)
        image[LOG] = bytes(content)
    return image


def turned_head(disk: Disk, chance: random.Random) -> Image:
    """One bit of what tells SQLite where on a page the rows are."""

    def turn(content: bytearray) -> None:
        page = chance.randrange(max(1, len(content) // PAGE_BYTES))
        content[min(page * PAGE_BYTES + chance.randrange(100), len(content) - 1)] ^= 1 << chance.randrange(8)

    return _damaged(disk, chance, turn, only="journal.sqlite")


def lost_sector(disk: Disk, chance: random.Random) -> Image:
    """A sector of a file is zeros, since the drive cannot read it any more."""

    def lose(content: bytearray) -> None:
        at = chance.randrange(len(content)) // min(SECTOR_BYTES) * min(SECTOR_BYTES)
        size = len(content[at : at + min(SECTOR_BYTES)])
        content[at : at + size] = bytes(size)

    return _damaged(disk, chance, lose)


def lost_write(disk: Disk, chance: random.Random) -> Image:
    """A write that was synced is not there: the drive has told a lie, or written it elsewhere."""
    image = killed(disk, chance)
    writes = [(name, *write) for name, file in disk.names.items() for write in file.overwritten]
    if writes:
        name, offset, before = chance.choice(writes)
        content = bytearray(image[name])
        content[offset : offset + len(before)] = before[: max(0, len(content) - offset)]
        image[name] = bytes(content)
    return image


def lost_file(disk: Disk, chance: random.Random) -> Image:
    return _damaged(disk, chance, None)


def _damaged(
    disk: Disk, chance: random.Random, damage: Callable[[bytearray], None] | None, only: str | None = None
) -> Image:
    """What a kill leaves, with damage to one file; None: the file is lost."""
    image = killed(disk, chance)
    files = [name for name, content in image.items() if content and only in (None, name)]
    if not files:
        return image
    name = chance.choice(files)
    content = bytearray(image.pop(name))
    if damage is None:
        return image
    damage(content)
    return image | {name: bytes(content)}


DAMAGES: dict[str, Cut] = {
    one.__name__: one for one in (turned_bit, turned_in_log, turned_head, lost_sector, lost_write, lost_file)
}
"""What no sound disk does: here the service may refuse."""
