"""Every setting, declared once: its name, its default, its range and what it is for.

The environment variable of a setting is its name in capitals with `NOVIKOFF_` before it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic.config import JsonDict
from pydantic_settings import BaseSettings, SettingsConfigDict

from service import errors
from service.errors import FieldError, InvalidSettings
from service.learning.statistics.confusion import CLASSES_MAX
from service.runtime.environment import OF_CLIENTS, PREFIX
from service.runtime.memory import children, memory_bytes, shared_bytes


def _share(thirty_seconds: int) -> Callable[[dict[str, Any]], int]:
    """A default budget: so many 32nds of what the budgets share. All of them together are 32."""
    return lambda data: thirty_seconds * _shared(data) // 32


def _told(default: str) -> JsonDict:
    """A default that is a share, as docs/settings.md has it."""
    return {"default": default}


def _of_a_child(data: dict[str, Any]) -> int:
    return _share(7)(data) // children(data.get("jobs_max", 1))


def _shared(data: dict[str, Any]) -> int:
    return shared_bytes(data.get("memory_bytes", 0), data.get("jobs_max", 1))


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 chooses a free port")
    published: str = Field(
        "",
        description="address where clients reach a container's port, such as `127.0.0.1:8000`; empty:"
        " `host` and `port`",
    )
    data: Path = Field(Path("data"), description="directory of the journal")
    journal: str = Field(
        "sqlite",
        pattern=r"^(sqlite|(nats|tls)://[^\s,]+(,(nats|tls)://[^\s,]+)*)$",
        description="`sqlite`: a file in `data`; `nats://host:4222,…`: a cluster shared by several replicas",
    )
    api_keys: str = Field("", description="API keys, as printed by `novikoff key`, comma-separated")
    api_keys_file: str = Field("", description="file of API keys, one per line; reloaded when it changes")
    allow_anonymous: bool = Field(False, description="without API keys, give other machines full access")
    allowed_hosts: str = Field(
        "",
        description="host names that requests may use besides this machine's, such as `novikoff, *.example.org`;"
        " empty: without API keys none, with API keys all",
    )
    cors_origins: str = Field(
        "",
        description="origins of web pages that may call the service, such as `https://example.org`, comma-separated",
    )
    requests_per_second: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="rate limit in requests per second of an API key, or of an address without one; 0: no limit",
    )
    requests_burst: int = Field(
        100, ge=1, le=1_000_000, description="largest burst that the rate limit allows"
    )
    refused_keys_max: int = Field(
        20,
        ge=0,
        description="most invalid API keys from an address before it must pause, longer after each; 0: no limit",
    )
    trusted_proxies: str = Field(
        "127.0.0.0/8, ::1",
        description="addresses or networks of proxies whose `X-Forwarded-For` is trusted, comma-separated",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level of messages that are logged"
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="plain lines, or one JSON object per line"
    )
    log_features: bool = Field(False, description="allow log lines about errors to quote what clients sent")
    shutdown_seconds: float = Field(
        20.0,
        ge=1,
        le=3600,
        description="time for requests in progress to finish after a stop signal",
    )

    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^\s]+)?$",
        description="OTLP/HTTP endpoint for a trace span of each request, such as `http://host:4318`; empty: none",
    )
    otlp_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of requests without a `traceparent` header that get a span; with one, its flag decides",
    )
    otlp_spans_max: int = Field(
        5_000,
        ge=1,
        le=1_000_000,
        description="most spans queued for sending, about 3 KB each; further ones are dropped and counted",
    )
    otlp_seconds_max: float = Field(
        5.0,
        gt=0,
        le=600,
        description="timeout for sending a batch of spans, and for the last ones at the stop",
    )

    memory_bytes: int = Field(
        default_factory=memory_bytes,
        ge=67_108_864,
        description="memory for the service and its child processes; budgets are shares of it",
        json_schema_extra=_told("the cgroup's limit, else the machine's memory"),
    )
    jobs_max: int = Field(
        1, ge=1, le=64, description="most jobs that run at the same time, each in its own process"
    )
    connections_max: int = Field(
        10_000,
        ge=1,
        description="most concurrent connections; fewer if the system allows fewer open files",
    )
    connections_per_address_max: int = Field(
        1_000,
        ge=1,
        description="most concurrent connections from one address, except `trusted_proxies`",
    )
    connection_bytes_max: int = Field(
        65_536,
        ge=16_384,
        description="most bytes buffered for a connection (requests and responses); beyond it, reading pauses",
    )
    connections_bytes_max: int = Field(
        default_factory=_share(3),
        json_schema_extra=_told("3/32 of the shared memory"),
        ge=1_048_576,
        description="most bytes buffered for all connections, with their bodies; beyond it, one with"
        " over 16 KB gets 503"
        " for its body or is closed",
    )
    request_timeout_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="time for a client to send a request's head, to send its body, and to read its response",
    )
    stream_idle_seconds: float = Field(
        300.0, gt=0, le=86_400, description="idle time after which a stream is ended"
    )

    durability: Literal["power", "process"] = Field(
        "power",
        description="what an acknowledged reveal survives: a power cut, or only a crash of the process",
    )
    durability_of_predictions: Literal["relaxed", "strict"] = Field(
        "relaxed", description="`strict` responds to a prediction only after it is on disk"
    )
    queue_seconds_max: float = Field(
        5.0, gt=0, le=3600, description="time that an event may be queued for the disk before clients get 503"
    )
    queue_events_max: int = Field(
        20_000, ge=1, le=10_000_000, description="most events queued for the disk before clients get 503"
    )
    scrub_rows_per_second: int = Field(
        500,
        ge=0,
        le=1_000_000,
        description="rows of the SQLite journal checked for damage per second; 0: none",
    )
    snapshot_every_events: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="most events of a model between two snapshots; large models are saved sooner",
    )
    events_kept_max: int = Field(
        100_000, ge=0, description="most events of a model kept after a snapshot covers them"
    )
    history_bytes_max: int = Field(
        16_777_216,
        ge=0,
        description="most bytes of snapshots kept for a model's older versions, at most 32 snapshots;"
        " the two newest are always kept",
    )

    lag_events_max: int = Field(
        1_000, ge=0, description="most events that a replica may lag behind the journal while it is ready"
    )
    loop_pause_seconds_max: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="longest event-loop stall; beyond it /readyz returns 503 for 10 s",
    )
    journal_allow_unsynced: bool = Field(
        False, description="allow NATS servers that do not sync every write to disk"
    )
    nats_prefix: str = Field(
        "novikoff",
        pattern=r"^[A-Za-z0-9_-]{1,32}$",
        description="prefix of the stream names; services that share a cluster need different ones",
    )
    nats_replicas: int = Field(3, ge=1, le=5, description="copies of each stream, one per server")
    nats_seconds: float = Field(
        15.0,
        ge=1,
        le=600,
        description="timeout for the cluster to store an event or to respond at all, before clients get 503",
    )
    nats_monitor: str = Field(
        "", description="monitoring addresses of the NATS servers, comma-separated; empty: port 8222 of each"
    )
    nats_user: str = Field("", description="NATS user")
    nats_password: str = Field("", description="NATS password")
    nats_token: str = Field("", description="NATS token, instead of user and password")
    nats_credentials: str = Field("", description="NATS credentials file, instead of the others")
    nats_ca: str = Field("", description="TLS: file of the authority that signed the servers' certificates")
    nats_certificate: str = Field("", description="TLS: file of the client certificate")
    nats_key: str = Field("", description="TLS: file of the client certificate's key")

    auto_create: bool = Field(True, description="create an unknown model at its first prediction")
    models_max: int = Field(1_000_000, ge=1, description="most models, in memory or on disk")
    models_loaded_max: int = Field(
        10_000, ge=1, description="most models in memory; the least recently used are unloaded"
    )
    models_loaded_bytes_max: int = Field(
        default_factory=_share(16),
        json_schema_extra=_told("half of the shared memory"),
        ge=0,
        description="most estimated bytes of the models in memory; the least recently used are unloaded",
    )
    copies_bytes_max: int = Field(
        default_factory=_share(1),
        json_schema_extra=_told("1/32 of the shared memory"),
        ge=0,
        description="most bytes of copies of large models, made for exports, weights and histories"
        " while clients read them;"
        " one copy is always allowed",
    )
    outcomes_bytes_max: int = Field(
        default_factory=_share(1),
        json_schema_extra=_told("1/32 of the shared memory"),
        ge=0,
        description="most bytes of outcomes in memory, for retries, until the next snapshots; beyond"
        " it, some are saved early",
    )
    pending_ttl_seconds: float = Field(
        86_400.0, gt=0, le=3.2e9, description="time that a prediction stays pending"
    )
    pending_max: int = Field(
        10_000_000,
        ge=1,
        le=10_000_000,
        description="most pending predictions of a model; beyond it, its oldest are evicted",
    )

    pending_total_max: int = Field(
        500_000,
        ge=1,
        description="most pending predictions of all models, in memory and on disk; beyond it, the oldest are evicted;"
        " with tenants, those of the largest",
    )
    pending_bytes_max: int = Field(
        default_factory=_share(2),
        json_schema_extra=_told("1/16 of the shared memory"),
        ge=0,
        description="most estimated bytes of pending predictions in memory; beyond it, the oldest stay"
        " on disk only, with 256"
        " bytes each in memory, and are evicted if these do not fit",
    )

    feeds_max: int = Field(100, ge=0, description="most concurrent clients of the feed")
    metrics_models_max: int = Field(
        500, ge=0, description="most models with their own metrics in /metrics, the busiest first"
    )

    streams_max: int = Field(100, ge=0, description="most concurrent streams")
    stream_answers_bytes_max: int = Field(
        1_073_741_824,
        ge=0,
        description="unread responses of all streams, buffered on disk, for clients that send before they read",
    )
    stream_errors_max: int = Field(
        1_000,
        ge=0,
        description="bad lines of a stream that get a response each; further adjacent ones get one line"
        " with their number",
    )
    inflated_ratio_max: int = Field(
        200,
        ge=1,
        description="largest expansion factor of a gzip body; 256 KiB is always allowed",
    )
    inflated_bytes_max: int = Field(
        1_073_741_824, ge=256, description="largest decompressed size of a gzip stream in bytes"
    )
    line_bytes_max: int = Field(1_048_576, ge=256, description="longest line of a stream in bytes")
    items_max: int = Field(1_000, ge=1, le=100_000, description="most requests in one `items` list")
    fit_seconds_max: float = Field(3_600.0, gt=0, le=1e7, description="time limit of a fit or a replay")
    fit_memory_bytes_max: int = Field(
        default_factory=_of_a_child,
        json_schema_extra=_told("7/32 of the shared memory, divided among the processes"),
        ge=1_048_576,
        description="memory limit of the process of a fit, a replay, a rebuild or an import",
    )
    fit_examples_bytes_max: int = Field(
        default_factory=lambda data: min(134_217_728, _of_a_child(data) // 4),
        json_schema_extra=_told("a quarter of that, at most 134217728"),
        ge=1_024,
        description="most bytes of history that a model is fitted to: the newest rounds that fit",
    )
    upload_bytes_max: int = Field(
        default_factory=lambda data: min(67_108_864, _share(3)(data)),
        json_schema_extra=_told("3/32 of the shared memory, at most 67108864"),
        ge=256,
        description="largest body of an import or of the examples of a fit",
    )
    head_bytes_max: int = Field(
        65_536,
        ge=1_024,
        description="largest request head in bytes, from the request line to the empty line",
    )
    body_bytes_max: int = Field(1_048_576, ge=256, description="largest request body")
    names_max: int = Field(
        100_000, ge=1, le=10_000_000, description="most names that a model with named features can learn"
    )
    classes_max: int = Field(1_000, ge=2, le=CLASSES_MAX, description="most classes of a model")
    weights_max: int = Field(
        default_factory=lambda data: min(33_554_432, _share(16)(data) // 16),
        json_schema_extra=_told("those that fill a quarter of the shared memory, at most 33554432"),
        ge=1,
        description="most weights of a model, all classes together, of 8 bytes each;"
        " what a learner, `standardize`, `fourier` and `crosses` keep beside them counts too",
    )
    covariance_dimension_max: int = Field(
        512, ge=1, le=4096, description="most weights of a learner with a full covariance"
    )
    features_max: int = Field(65_536, ge=1, description="most features of an example")
    weight_max: float = Field(1e6, gt=0, le=1e9, description="largest `weight` of a reveal")
    feature_abs_max: float = Field(1e100, gt=0, le=1e100, description="largest absolute value of a feature")


def load_settings(**given: object) -> Settings:
    """Settings from the environment, what is `given` (and not None) before it; InvalidSettings if wrong."""
    if os.environ.get(f"{PREFIX}PORT", "").startswith("tcp://"):
        raise InvalidSettings(
            f"{PREFIX}PORT is an address that Kubernetes sets for a Service named novikoff:"
            " give the pod `enableServiceLinks: false`"
        )
    unknown = sorted(
        name
        for name in os.environ
        if name.upper().startswith(PREFIX)
        and name not in OF_CLIENTS
        and name.upper()[len(PREFIX) :].lower() not in Settings.model_fields
    )
    if unknown:
        known = [PREFIX + name.upper() for name in Settings.model_fields]
        wrong = "; ".join(f"{name}: {errors.unknown(name.upper(), known, 'setting')}" for name in unknown)
        raise InvalidSettings(f"{wrong}; docs/settings.md lists all")
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        fields = tuple(
            FieldError(f"{PREFIX}{e['loc'][0]}".upper(), e["msg"])
            for e in error.errors(include_input=False)
            if e["type"] != "default_factory_not_called"  # since another setting is wrong, which is named
        )
        raise InvalidSettings("; ".join(f"{f.field}: {f.message}" for f in fields), fields) from None
