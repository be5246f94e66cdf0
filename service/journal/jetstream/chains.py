"""The chain of each model: a digest over all its events, by which one that is missing is noticed.

A server leaves out a message that it cannot read, which looks as if there were none. So every event says which event
of its model the replica that appended it had applied last, and the digest of the chain up to there. Replicas append
many events at once: that is seldom the event right before it. Who comes to an event without having come to the one it
names, by the same chain, lacks an event. Messages of the time before digests do not change the digest of a chain.
"""

import math
from collections import OrderedDict
from typing import NamedTuple

from service.errors import ModelUnreadable
from service.journal.jetstream.messages import DIGEST_BYTES, UNKNOWN, Link
from service.journal.seals import digest

RECENT_MAX = 20_000
"""So many places of chains are remembered, of all models together: as far back events may name others."""


class Gap(ModelUnreadable):
    """Events of a model are missing."""


class _Next(NamedTuple):
    seq: int
    digest: bytes
    """Of its message."""
    link: Link


class _Chain:
    """`newest` is None as its digest if it is not known."""

    __slots__ = ("base", "digest", "newest")

    def __init__(self, seq: int, digest: bytes | None) -> None:
        self.base = self.newest = seq
        self.digest = digest


class Chains:
    """How far the chain of each model has come, as far as it is known here."""

    def __init__(self, recent_max: float = RECENT_MAX) -> None:
        self._chains: dict[int, _Chain] = {}
        self._recent: OrderedDict[tuple[int, int], bytes | None] = OrderedDict()
        self._recent_max = recent_max
        self._forgotten_through = 0
        self._ahead: dict[int, list[_Next]] = {}
        """Of models that are just being read, the events that have come meanwhile."""

    def watch(self, life: int) -> None:
        """Keep the events of a model from now on, until its chain begins where it was read to."""
        if life not in self._chains:
            self._ahead.setdefault(life, [])

    def begin(self, life: int, seq: int, digest: bytes | None) -> None:
        """The chain of a model is known up to an event; Gap if one that has come meanwhile does not fit."""
        self._chains[life] = _Chain(seq, digest)
        for each in self._ahead.pop(life, ()):
            self.follow(life, *each)

    def stop_watching(self, life: int) -> None:
        self._ahead.pop(life, None)

    def drop(self, life: int) -> None:
        """The model was deleted, or what is known of it cannot be trusted."""
        self._chains.pop(life, None)

    def follow(self, life: int, seq: int, message_digest: bytes, link: Link) -> None:
        """Go on to the next event of a model; Gap if it shows that an event is missing."""
        chain = self._chains.get(life)
        if chain is None:
            if (ahead := self._ahead.get(life)) is not None:
                ahead.append(_Next(seq, message_digest, link))
            return
        if seq <= chain.newest:
            return
        self.check(life, link)
        if chain.digest is None and link.seq == chain.newest:
            chain.digest = link.digest
        self._remember(life, chain)
        chain.newest = seq
        if message_digest and chain.digest is not None:
            chain.digest = after(chain.digest, seq, message_digest)

    def check(self, life: int, link: Link) -> None:
        """Gap if somebody has come to a place in the chain of a model that is not in the one known here."""
        chain = self._chains.get(life)
        if chain is None or link.seq < chain.base or link == UNKNOWN:
            return
        if link.seq > chain.newest:
            raise Gap(f"after event {chain.newest}, event {link.seq} is missing")
        if link.seq == chain.newest:
            known = chain.digest
        elif (life, link.seq) in self._recent:
            known = self._recent[life, link.seq]
        elif link.seq > self._forgotten_through:
            raise Gap(f"event {link.seq} is missing")
        else:
            return
        if known is not None and known != link.digest:
            raise Gap(f"of the events up to {link.seq}, one is missing or is another")

    def newest(self, life: int) -> Link:
        """The newest event of a model that is known for sure; UNKNOWN if none is."""
        chain = self._chains.get(life)
        return UNKNOWN if chain is None or chain.digest is None else Link(chain.newest, chain.digest)

    def digest_at(self, life: int, seq: int) -> bytes | None:
        """The digest of a model's chain up to an event; None if it is not known."""
        chain = self._chains.get(life)
        if chain is None:
            return None
        return chain.digest if chain.newest == seq else self._recent.get((life, seq))

    def _remember(self, life: int, chain: _Chain) -> None:
        self._recent[life, chain.newest] = chain.digest
        if len(self._recent) > self._recent_max:
            (_, seq), _ = self._recent.popitem(last=False)
            self._forgotten_through = max(self._forgotten_through, seq)


def one_chain() -> Chains:
    """For a model that is being read: remembers all of it."""
    return Chains(math.inf)


def after(chain: bytes, seq: int, message_digest: bytes) -> bytes:
    """The digest of a chain with one event more."""
    return digest(chain + message_digest, str(seq))


def first(life: int, message_digest: bytes) -> bytes:
    """The digest of a chain that has only the event that made the model."""
    return after(bytes(DIGEST_BYTES), life, message_digest) if message_digest else bytes(DIGEST_BYTES)
