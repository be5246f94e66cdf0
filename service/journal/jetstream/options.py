"""The settings of a journal on a cluster."""

from dataclasses import dataclass

from service.journal.jetstream.link.connecting import Access


@dataclass(frozen=True, slots=True)
class Options:
    """Every replica has to have the same ones, but for `seconds` and `queue_events_max`."""

    access: Access
    prefix: str
    """Of the names of streams and subjects, so that several services can share a cluster."""
    replicas: int
    """How many servers keep each stream."""
    monitors: tuple[str, ...]
    """The monitoring addresses of the servers, to check that they sync every write; empty: not checked."""
    seconds: float
    """How long the cluster may take to store an event."""
    queue_events_max: int
    events_kept_max: int
    """How many events of a model are kept at least; older ones are trimmed."""
    events_kept_seconds: float
    """Events younger than this are never trimmed."""
    ids_kept_seconds: float
    """How long a prediction id is remembered."""
    history_bytes_max: int = 0
    """What the snapshots of a model may take together that are kept for its older versions."""
