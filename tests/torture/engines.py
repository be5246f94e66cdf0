"""The service's engine over a directory, as `create_app` would have it, with settings by which much happens soon."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.events import AnyEvent
from service.journal.protocol import Apply, Before, Distrust
from service.journal.sqlite.journal import SqliteJournal
from service.web.routes.model_settings import ModelLimits, ModelSettings

LIMITS = ModelLimits(names_max=100, classes_max=10, covariance_dimension_max=16, weights_max=1000)

Tell = Callable[[int, AnyEvent], None]


class Watched(SqliteJournal):
    """Tells of each event when the journal says that it is durable, before it is applied or answered."""

    tell: Tell

    async def open(self, apply: Apply, before: Before | None = None, distrust: Distrust | None = None) -> int:
        def told(seq: int, event: AnyEvent) -> Any:
            self.tell(seq, event)
            return apply(seq, event)

        return await super().open(told, before, distrust)


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings that matter here; the names are those of `service/settings.py`."""

    snapshot_every_events: int = 5
    events_kept_max: int = 7
    pending_max: int = 6
    pending_ttl_seconds: float = 3e9
    """So long that no round of the recording expires before it is looked at."""
    durability: str = "power"
    models_loaded_max: int = 2


def journal_at(directory: Path, plan: Plan, tell: Tell = lambda seq, event: None) -> Watched:
    journal = Watched(
        directory,
        durability=plan.durability,
        queue_events_max=1000,
        queue_seconds_max=60,
        events_kept_max=plan.events_kept_max,
        expired_remembered_max=plan.pending_max,
    )
    journal.tell = tell
    return journal


def engine_over(journal: SqliteJournal, plan: Plan) -> Engine:
    defaults = {kind: ModelSettings(features=kind).complete(LIMITS) for kind in ("dense", "named")}
    settings = EngineSettings(
        durability_of_predictions="strict",
        pending_ttl_seconds=plan.pending_ttl_seconds,
        pending_max=plan.pending_max,
        pending_total_max=1000,
        features_max=100,
        feature_abs_max=1e100,
        jobs_max=1,
        models_max=1000,
        models_loaded_max=plan.models_loaded_max,
        snapshot_every_events=plan.snapshot_every_events,
    )
    return Engine(journal, settings, defaults)
