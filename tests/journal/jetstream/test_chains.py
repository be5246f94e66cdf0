"""The chains of events by which one that is missing is noticed."""

import pytest

from service.journal.jetstream.chains import Chains, Gap, one_chain
from service.journal.jetstream.messages import UNKNOWN, Link

LIFE = 7
EVENTS = range(10, 20)


def digest(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def chain(lacking: int | None = None) -> Chains:
    chains = Chains()
    chains.begin(LIFE, LIFE, bytes(8))
    for seq in EVENTS:
        if seq != lacking:
            chains.follow(LIFE, seq, digest(seq), UNKNOWN)
    return chains


@pytest.mark.parametrize("lacking", EVENTS)
def test_an_event_that_is_missing_is_noticed_with_the_next_that_names_a_later_one(lacking: int) -> None:
    for named in EVENTS:
        link = Link(named, chain().digest_at(LIFE, named) or b"")
        chain().follow(LIFE, 99, digest(99), link)
        if named < lacking:
            chain(lacking).follow(LIFE, 99, digest(99), link)
        else:
            with pytest.raises(Gap, match="missing"):
                chain(lacking).follow(LIFE, 99, digest(99), link)


def test_another_event_in_the_place_of_one_is_noticed() -> None:
    other = chain(lacking=15)
    other.drop(LIFE)
    other.begin(LIFE, LIFE, bytes(8))
    for seq in EVENTS:
        other.follow(LIFE, seq, digest(seq if seq != 15 else 0), UNKNOWN)
    with pytest.raises(Gap, match="is another"):
        other.check(LIFE, chain().newest(LIFE))


def test_events_that_come_while_a_model_is_read_belong_to_its_chain() -> None:
    chains = Chains()
    chains.watch(LIFE)
    for seq in EVENTS:
        chains.follow(LIFE, seq, digest(seq), UNKNOWN)
    read = one_chain()
    read.begin(LIFE, LIFE, bytes(8))
    for seq in (10, 11, 12):
        read.follow(LIFE, seq, digest(seq), UNKNOWN)
    assert chains.newest(LIFE) == UNKNOWN
    chains.begin(LIFE, 12, read.digest_at(LIFE, 12))
    assert chains.newest(LIFE) == chain().newest(LIFE)


def test_of_places_that_are_remembered_no_more_nothing_is_claimed() -> None:
    chains = Chains(recent_max=3)
    chains.begin(LIFE, LIFE, bytes(8))
    for seq in EVENTS:
        chains.follow(LIFE, seq, digest(seq), UNKNOWN)
    chains.check(LIFE, Link(12, b"anything"))
    with pytest.raises(Gap):
        chains.check(LIFE, Link(18, b"anything"))


def test_a_chain_whose_beginning_is_not_known_takes_it_from_the_first_event_that_names_it() -> None:
    chains = one_chain()
    chains.begin(LIFE, 19, None)
    assert chains.newest(LIFE) == UNKNOWN
    chains.follow(LIFE, 20, digest(20), chain().newest(LIFE))
    expected = chain()
    expected.follow(LIFE, 20, digest(20), UNKNOWN)
    assert chains.newest(LIFE) == expected.newest(LIFE)
    with pytest.raises(Gap):
        chains.follow(LIFE, 22, digest(22), Link(21, digest(21)))
