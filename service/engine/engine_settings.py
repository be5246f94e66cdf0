"""The settings of the service that the engine reads. Their ranges and descriptions are in `service/settings.py`."""

from service.runtime.processes import JobLimits


class EngineSettings(JobLimits, frozen=True, kw_only=True):
    auto_create: bool = True
    durability_of_predictions: str = "relaxed"
    pending_ttl_seconds: float = 86_400.0
    pending_max: int = 10_000_000
    pending_total_max: int = 500_000
    pending_bytes_max: int = 268_435_456
    models_max: int = 1_000_000
    models_loaded_max: int = 10_000
    models_loaded_bytes_max: int = 1_073_741_824
    outcomes_bytes_max: int = 67_108_864
    copies_bytes_max: int = 536_870_912
    snapshot_every_events: int = 1_000
    jobs_max: int = 1
    features_max: int = 65_536
    feature_abs_max: float = 1e100
    weight_max: float = 1e6
