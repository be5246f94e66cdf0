"""How a journal on a cluster is set up."""

from dataclasses import dataclass

from service.journal.jetstream.link.connecting import Access


@dataclass(frozen=True, slots=True)
class Options:
    """Every replica has to have the same, but for `seconds` and `queue_events_max`."""

    access: Access
    prefix: str
    replicas: int
    monitors: tuple[str, ...]
    """Where servers tell whether they sync every write; empty: they need not."""
    seconds: float
    """How long the cluster may take for an event."""
    queue_events_max: int
    events_kept_max: int
    events_kept_seconds: float
    """Events younger than this are never trimmed."""
    ids_kept_seconds: float
    """How long an id is known."""
