"""The names of streams and subjects in the cluster.

Subjects have a model's `life` (see `Journal`) and not its name, so that a model made again under an old name shares
none with its predecessor.
"""

import re

NO_ID = "!"
"""The last part of the subject of events without a prediction id; `token` never returns it."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_:-]")


def token(name: str) -> str:
    """A name as one part of a subject; different names give different parts.

    >>> token("tenant-7:spam.v2"), token("50%")
    ('tenant-7:spam~v2', '50=25=')
    """
    return _UNSAFE.sub(lambda found: "~" if found[0] == "." else f"={ord(found[0]):x}=", name)


class Subjects:
    """The streams and subjects of one service. Several may share a cluster, each with a prefix of its own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.log = f"{prefix}-log"
        """The stream of events: creations and deletions of models under `life`, all others under `log`."""
        self.ids = f"{prefix}-ids"
        """The stream of prediction ids in use, each with its prediction or the model that learned it."""
        self.state = f"{prefix}-state"
        """The stream of everything else: snapshots, pages of outcomes, summaries, large bodies, marks."""
        self.lifecycles = f"{prefix}.life.*"
        self.events = f"{prefix}.log.*.*"
        self.known_ids = f"{prefix}.id.*"
        self.derived = [
            f"{prefix}.{kind}.>" for kind in ("snap", "point", "page", "blob", "sum", "wait", "mark")
        ]
        self.summaries = f"{prefix}.sum.*"
        self.mark = f"{prefix}.mark.summarised"
        self.ballast = f"{prefix}.mark.ballast"
        self.format = f"{prefix}.mark.format"
        """The version of the streams' format; see `format.py`."""

    def lifecycle_of(self, model: str) -> str:
        return f"{self._prefix}.life.{token(model)}"

    def event(self, life: int, event_id: str | None) -> str:
        return f"{self._prefix}.log.{life}.{NO_ID if event_id is None else token(event_id)}"

    def events_of(self, life: int) -> str:
        return f"{self._prefix}.log.{life}.*"

    def id(self, prediction_id: str) -> str:
        return f"{self._prefix}.id.{token(prediction_id)}"

    def snapshot(self, life: int, seq: int, part: int) -> str:
        return f"{self._prefix}.snap.{life}.{seq}.{part}"

    def parts_of_snapshot(self, life: int, seq: int) -> str:
        return f"{self._prefix}.snap.{life}.{seq}.*"

    def pointer(self, life: int) -> str:
        return f"{self._prefix}.point.{life}"

    def page(self, life: int, through: int, part: int) -> str:
        return f"{self._prefix}.page.{life}.{through}.{part}"

    def parts_of_page(self, life: int, through: int) -> str:
        return f"{self._prefix}.page.{life}.{through}.*"

    def blob(self, life: int, name: str, part: int) -> str:
        return f"{self._prefix}.blob.{life}.{name}.{part}"

    def blobs_of(self, life: int, name: str = "*") -> str:
        return f"{self._prefix}.blob.{life}.{name}.*"

    def replica(self, name: str) -> str:
        """Where a replica is asked; see `Journal.ask`."""
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
        return [*wide, self.pointer(life), self.summary(life)]

    def life_in(self, subject: str) -> int:
        """The life in the subject of an event, a summary or the like.

        >>> Subjects("n").life_in("n.log.17.p")
        17
        """
        return int(subject[len(self._prefix) + 1 :].split(".")[1])

    def is_lifecycle(self, subject: str) -> bool:
        return subject.startswith("life.", len(self._prefix) + 1)
