"""The names of streams and subjects in the cluster.

Subjects have a model's `life` (see `Journal`) and not its name, so that a model made again under an old name shares
none with its predecessor.
"""

import os
import re
from hashlib import blake2b
from zlib import crc32

NO_ID = "!"
"""The last part of the subject of events without a prediction id; no id is turned into it."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_:-]")


def token(name: str) -> str:
    """A name as one part of a subject; different names give different parts.

    >>> token("tenant-7:spam.v2"), token("50%")
    ('tenant-7:spam~v2', '50=25=')
    """
    return _UNSAFE.sub(lambda found: "~" if found[0] == "." else f"={ord(found[0]):x}=", name)


def digest(name: str) -> str:
    """A part of a subject that differs for each name, but does not show it.

    The servers keep a list of all subjects in a file that they write every few minutes only, and if there are many, not
    at all. So what may have to be forgotten must not be in a subject.

    >>> digest("order-17")
    'dfc164b129ef6f11861bd2062345a12b'
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


SLOTS = 16_384
SLOTS_PER_BUCKET = 64


def bucket(model: str) -> int:
    """Which of 256 buckets a model is in, for ever: what is divided by models is divided by these.

    >>> bucket("spam"), bucket("tenant-7:spam.v2")
    (252, 192)
    """
    return crc32(model.encode("utf-8", "surrogatepass")) % SLOTS // SLOTS_PER_BUCKET


class Subjects:
    """The streams and subjects of one service. Several may share a cluster, each with a prefix of its own."""

    def __init__(self, prefix: str, *, has_plain_ids: bool = False, has_buckets: bool = True) -> None:
        """`has_plain_ids`: prediction ids are parts of subjects as they are, as in logs that cannot forget.

        `has_buckets`: the subjects of events have the bucket of their model, as in all but older logs.
        """
        self._prefix = prefix
        self._id_token = token if has_plain_ids else digest
        self._has_buckets = has_buckets
        self.log = f"{prefix}-log"
        """The stream of events: creations and deletions of models under `life`, all others under `log`."""
        self.ids = f"{prefix}-ids"
        """The stream of prediction ids in use, each with its prediction or the model that learned it."""
        self.state = f"{prefix}-state"
        """The stream of everything else: snapshots, pages of outcomes, summaries, large bodies, marks."""
        self.lifecycles = f"{prefix}.life.*"
        self.events_before = f"{prefix}.log.*.*"
        self.events = f"{prefix}.log.*.*.*" if has_buckets else self.events_before
        self.known_ids = f"{prefix}.id.*"
        self.derived = [
            f"{prefix}.{kind}.>" for kind in ("snap", "point", "page", "blob", "sum", "wait", "mark", "seal")
        ]
        """0.1.0 refuses a stream with `seal`, as it should: it knows nothing of digests."""
        self.before = {self.log: [self.lifecycles, self.events_before], self.state: self.derived[:-1]}
        """The subjects of streams that older versions have made."""
        self.summaries = f"{prefix}.sum.*"
        self.mark = f"{prefix}.mark.summarised"
        self.ballast = f"{prefix}.mark.ballast"
        self.format = f"{prefix}.mark.format"
        """The version of the streams' format; see `format.py`."""
        self.unsealed = f"{prefix}.seal.after"
        """The last messages without a digest; see `format.py`."""
        self.streams = (self.log, self.ids, self.state)

    def lifecycle_of(self, model: str) -> str:
        return f"{self._prefix}.life.{token(model)}"

    def event(self, life: int, model: str, event_id: str | None) -> str:
        last = NO_ID if event_id is None else self._id_token(event_id)
        return f"{self._prefix}.log.{self._place(life, model)}.{last}"

    def events_of(self, life: int, model: str) -> str:
        return f"{self._prefix}.log.{self._place(life, model)}.*"

    def _place(self, life: int, model: str) -> str:
        return f"{bucket(model)}.{life}" if self._has_buckets else str(life)

    def id(self, prediction_id: str) -> str:
        return f"{self._prefix}.id.{self._id_token(prediction_id)}"

    def spare_id(self, prediction_id: str) -> str:
        """Where the record of an id is kept while it is deleted and stored again. No id has a zero byte."""
        return self.id(f"{prediction_id}\0")

    def id_of_event(self, subject: str) -> str | None:
        """The subject of the record of an event's id; None if the event has none.

        >>> s = Subjects("n")
        >>> s.id_of_event(s.event(17, "m", "p")) == s.id("p"), s.id_of_event(s.event(17, "m", None))
        (True, None)
        """
        last = subject.rpartition(".")[2]
        return None if last == NO_ID else f"{self._prefix}.id.{last}"

    def snapshot(self, life: int, seq: int, part: int) -> str:
        return f"{self._prefix}.snap.{life}.{seq}.{part}"

    def parts_of_snapshot(self, life: int, seq: int) -> str:
        return f"{self._prefix}.snap.{life}.{seq}.*"

    def pointer(self, life: int) -> str:
        return f"{self._prefix}.point.{life}"

    def page(self, life: int, through: int, edition: str, part: int) -> str:
        return f"{self._prefix}.page.{life}.{through}.{edition}{part}"

    def parts_of_page(self, life: int, through: int) -> str:
        return f"{self._prefix}.page.{life}.{through}.*"

    def erased(self, life: int, first: int, last: int, edition: str, part: int) -> str:
        """What stands in the places of a model's forgotten events, of which these are the first and the last."""
        return f"{self._prefix}.mark.erased.{life}.{first}.{last}.{edition}{part}"

    def erased_of(self, life: int | None) -> str:
        """None: of all models."""
        return f"{self._prefix}.mark.erased.{'*' if life is None else life}.*.*.*"

    @staticmethod
    def erased_in(subject: str) -> tuple[int, int, int]:
        """The life, and the first and the last event.

        >>> s = Subjects("n.m")
        >>> s.erased_in(s.erased(17, 20, 30, s.edition(3), 0))
        (17, 20, 30)
        """
        life, first, last, _ = subject.split(".")[-4:]
        return int(life), int(first), int(last)

    def snapshots_and_pages_of(self, life: int) -> list[str]:
        return [f"{self._prefix}.{kind}.{life}.*.*" for kind in ("snap", "page")]

    @staticmethod
    def edition(revision: int) -> str:
        """A new name for something that a pointer will name, if it is still this revision of it by then."""
        return f"{revision}-{os.urandom(4).hex()}-"

    @staticmethod
    def revision_in(subject: str) -> int | None:
        """The revision in the edition of a subject; None if it has none.

        >>> s = Subjects("n")
        >>> s.revision_in(s.page(17, 20, s.edition(3), 0)), s.revision_in(s.page(17, 20, "", 0))
        (3, None)
        """
        revision, dash, _ = subject.rpartition(".")[2].partition("-")
        return int(revision) if dash else None

    @staticmethod
    def number_in(subject: str) -> int:
        """The last event of a snapshot or a page.

        >>> s = Subjects("n.m")
        >>> s.number_in(s.page(17, 20, s.edition(3), 0)), s.number_in(s.snapshot(17, 21, 0))
        (20, 21)
        """
        return int(subject.split(".")[-2])

    def blob(self, life: int, name: str, part: int) -> str:
        return f"{self._prefix}.blob.{life}.{name}.{part}"

    def blobs_of(self, life: int, name: str = "*") -> str:
        return f"{self._prefix}.blob.{life}.{name}.*"

    def replica(self, name: str) -> str:
        """Where a replica is asked; see `Peers.ask`."""
        return f"{self._prefix}.ask.{token(name)}"

    def summary(self, life: int) -> str:
        return f"{self._prefix}.sum.{life}"

    def waiting(self, life: int, name: str) -> str:
        return f"{self._prefix}.wait.{life}.{name}"

    def waiting_of(self, life: int | None) -> str:
        """Lists of predictions that wait for their labels; None: of all models."""
        return f"{self._prefix}.wait.{'*' if life is None else life}.*"

    def all_derived_of(self, life: int) -> list[str]:
        """The subjects in the state stream that a model's deletion purges."""
        kinds = ("snap", "page", "blob", "wait")
        wide = [f"{self._prefix}.{kind}.{life}.>" for kind in kinds]
        return [*wide, self.pointer(life), self.summary(life), self.erased_of(life)]

    def life_in(self, subject: str) -> int:
        """The life in the subject of an event, a summary or the like.

        >>> s = Subjects("n")
        >>> s.life_in(s.event(17, "m", "p")), s.life_in(s.summary(17)), s.life_in(s.waiting(17, "list"))
        (17, 17, 17)
        """
        kind, *places = subject[len(self._prefix) + 1 :].split(".")
        return int(places[1 if kind == "log" and self._has_buckets else 0])

    def is_lifecycle(self, subject: str) -> bool:
        return subject.startswith("life.", len(self._prefix) + 1)
