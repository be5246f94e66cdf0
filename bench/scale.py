"""How long and how much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """`FULL` has the sizes of the figures to reach; `QUICK` only shows that the harness works."""

    repetitions: int
    warmup_seconds: float
    seconds: float
    """Of each repetition of each thing."""
    connections: int
    history_rounds: int
    """The long history; the short one is `history_short_rounds`."""
    history_short_rounds: int
    models_spread: int
    models_stored: int
    events_stored: int
    models_on_page: int
    arrow_rows: int
    """In one request; 64 numbers each."""
    reveals_applied: int
    """In one repetition of the engine's cost."""


FULL = Scale(
    repetitions=4,
    warmup_seconds=2.0,
    seconds=4.0,
    connections=32,
    history_rounds=1_000_000,
    history_short_rounds=1_000,
    models_spread=10_000,
    models_stored=100_000,
    events_stored=1_000_000,
    models_on_page=1_000,
    arrow_rows=50_000,
    reveals_applied=20_000,
)

QUICK = Scale(
    repetitions=2,
    warmup_seconds=0.3,
    seconds=0.7,
    connections=32,
    history_rounds=10_000,
    history_short_rounds=1_000,
    models_spread=300,
    models_stored=1_000,
    events_stored=5_000,
    models_on_page=100,
    arrow_rows=5_000,
    reveals_applied=2_000,
)
