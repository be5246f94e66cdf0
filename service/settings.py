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

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="the port to listen on; 0 takes a free one")
    published: str = Field(
        "",
        description="in a container, where others reach the port, as `127.0.0.1:8000`; empty: where it listens",
    )
    data: Path = Field(Path("data"), description="the directory of the journal")
    journal: str = Field(
        "sqlite",
        pattern=r"^(sqlite|(nats|tls)://[^\s,]+(,(nats|tls)://[^\s,]+)*)$",
        description="`sqlite`: a file in `data`; `nats://host:4222,…`: a cluster that several replicas share",
    )
    api_keys: str = Field(
        "", description="the keys that count, as `novikoff key` prints them, with commas between"
    )
    api_keys_file: str = Field("", description="a file with such lines; it is read again whenever it changes")
    allow_anonymous: bool = Field(
        False, description="whether, without keys, other machines may do everything that this one may"
    )
    allowed_hosts: str = Field(
        "",
        description="names that requests may be for, beside those of this machine, as `novikoff, *.example.org`;"
        " empty: without keys no others, with keys any",
    )
    cors_origins: str = Field(
        "",
        description="web sites whose pages may call the service, as `https://example.org`, with commas between",
    )
    requests_per_second: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="requests a second of one key, or of one address where no key is needed; 0: no limit",
    )
    requests_burst: int = Field(100, ge=1, le=1_000_000, description="how many of them may come at once")
    refused_keys_max: int = Field(
        20,
        ge=0,
        description="wrong keys from one address before it has to pause, longer after each; 0: no limit",
    )
    trusted_proxies: str = Field(
        "127.0.0.0/8, ::1",
        description="addresses or networks of proxies, with commas between: their `X-Forwarded-For` says who calls",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least serious messages that are logged"
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="lines for people, or a JSON object a line"
    )
    log_features: bool = Field(
        False, description="whether lines about errors may quote what clients have sent"
    )
    shutdown_seconds: float = Field(
        20.0,
        ge=1,
        le=3600,
        description="how long requests under way may take once the service is told to stop",
    )

    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^\s]+)?$",
        description="where a span of each request is sent, by OTLP over HTTP, as `http://host:4318`; empty: nowhere",
    )
    otlp_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="the part of requests without a `traceparent` that get a span; those with one say it themselves",
    )
    otlp_spans_max: int = Field(
        5_000,
        ge=1,
        le=1_000_000,
        description="spans that may wait to be sent, of about 3 KB each; later ones are dropped and counted",
    )
    otlp_seconds_max: float = Field(
        5.0,
        gt=0,
        le=600,
        description="how long it may take to send some, and those that are left when the service stops",
    )

    memory_bytes: int = Field(
        default_factory=memory_bytes,
        ge=67_108_864,
        description="the memory that the service may take with its processes; budgets are shares of it",
        json_schema_extra=_told("the limit of its cgroup, else the machine's memory"),
    )
    jobs_max: int = Field(1, ge=1, le=64, description="jobs that may run at the same time, a process each")
    connections_max: int = Field(
        10_000,
        ge=1,
        description="clients that may be connected at the same time; fewer if the system allows fewer open files",
    )
    connections_per_address_max: int = Field(
        1_000,
        ge=1,
        description="clients of one address that may be connected at the same time, other than `trusted_proxies`",
    )
    connection_bytes_max: int = Field(
        65_536,
        ge=16_384,
        description="bytes of a connection that may wait to be read, begun or taken; then it is read no further",
    )
    connections_bytes_max: int = Field(
        default_factory=_share(3),
        json_schema_extra=_told("3/32 of the shared memory"),
        ge=1_048_576,
        description="such bytes, and bodies under way, of all connections; past it, one with over 16 KB gets 503"
        " for its body or is closed",
    )
    request_timeout_seconds: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="how long a client may take for a request's head, for its body, or leave an answer untaken",
    )
    stream_idle_seconds: float = Field(
        300.0, gt=0, le=86_400, description="how long a stream may be silent before it is ended"
    )

    durability: Literal["power", "process"] = Field(
        "power", description="what an answered reveal survives: a power cut, or only the end of the process"
    )
    durability_of_predictions: Literal["relaxed", "strict"] = Field(
        "relaxed", description="`strict` answers a prediction only once it is on disk"
    )
    queue_seconds_max: float = Field(
        5.0, gt=0, le=3600, description="how long an event may wait for the disk before clients get 503"
    )
    queue_events_max: int = Field(
        20_000, ge=1, le=10_000_000, description="events that may wait for the disk before clients get 503"
    )
    scrub_rows_per_second: int = Field(
        500,
        ge=0,
        le=1_000_000,
        description="rows of the SQLite journal that are checked for damage, always; 0: none",
    )
    snapshot_every_events: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="the most events of a model between two snapshots; large models are saved sooner",
    )
    events_kept_max: int = Field(
        100_000, ge=0, description="events of a model that are kept once a snapshot covers them"
    )
    history_bytes_max: int = Field(
        16_777_216,
        ge=0,
        description="what the snapshots of a model may take that are kept for its older versions, at most 32 of them;"
        " the two newest stay in any case",
    )

    lag_events_max: int = Field(
        1_000, ge=0, description="events that a replica may be behind the journal and still be ready"
    )
    loop_pause_seconds_max: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="how long nobody may be answered at a stretch; after that it is not ready for ten seconds",
    )
    journal_allow_unsynced: bool = Field(
        False, description="whether NATS servers may acknowledge what a power cut would take away"
    )
    nats_prefix: str = Field(
        "novikoff",
        pattern=r"^[A-Za-z0-9_-]{1,32}$",
        description="what the names of streams begin with; services that share a cluster take different ones",
    )
    nats_replicas: int = Field(3, ge=1, le=5, description="servers that have a copy of each stream")
    nats_seconds: float = Field(
        15.0,
        ge=1,
        le=600,
        description="how long the cluster may take for an event, or say nothing at all, before clients get 503",
    )
    nats_monitor: str = Field(
        "", description="monitoring addresses of the NATS servers, with commas; else port 8222 of each"
    )
    nats_user: str = Field("", description="the user of the NATS servers")
    nats_password: str = Field("", description="and the password")
    nats_token: str = Field("", description="or a token")
    nats_credentials: str = Field("", description="or a file with credentials")
    nats_ca: str = Field("", description="for TLS: a file with the authority that signed the servers")
    nats_certificate: str = Field("", description="for TLS: a file with our certificate")
    nats_key: str = Field("", description="for TLS: a file with its key")

    auto_create: bool = Field(True, description="whether predicting with an unknown model makes it")
    models_max: int = Field(1_000_000, ge=1, description="the most models, in memory or on disk")
    models_loaded_max: int = Field(
        10_000, ge=1, description="models in memory; the least recently used go to disk"
    )
    models_loaded_bytes_max: int = Field(
        default_factory=_share(16),
        json_schema_extra=_told("half of the shared memory"),
        ge=0,
        description="what the models in memory may take, by estimate; the least recently used go to disk",
    )
    copies_bytes_max: int = Field(
        default_factory=_share(1),
        json_schema_extra=_told("1/32 of the shared memory"),
        ge=0,
        description="copies of large models, from which exports, weights and histories are answered as clients take"
        " them; one is made in any case",
    )
    outcomes_bytes_max: int = Field(
        default_factory=_share(1),
        json_schema_extra=_told("1/32 of the shared memory"),
        ge=0,
        description="outcomes of rounds in memory, for retries, until the next snapshots; then some are saved early",
    )
    pending_ttl_seconds: float = Field(
        86_400.0, gt=0, le=3.2e9, description="how long a prediction waits for its label"
    )
    pending_max: int = Field(
        10_000_000,
        ge=1,
        le=10_000_000,
        description="predictions of a model that wait; beyond, its oldest are evicted",
    )

    pending_total_max: int = Field(
        500_000,
        ge=1,
        description="predictions that wait in all, in memory and in the journal; beyond, the oldest of all are evicted;"
        " with keys for tenants, of the tenant that has most",
    )
    pending_bytes_max: int = Field(
        default_factory=_share(2),
        json_schema_extra=_told("1/16 of the shared memory"),
        ge=0,
        description="memory for waiting predictions, by estimate; beyond, the oldest wait in the journal only, with 256"
        " bytes each in memory, and are evicted if these do not fit",
    )

    feeds_max: int = Field(100, ge=0, description="clients that may follow the feed at the same time")
    metrics_models_max: int = Field(
        500, ge=0, description="models with figures of their own in /metrics, the busiest first"
    )

    streams_max: int = Field(100, ge=0, description="streams that may be open at the same time")
    stream_answers_bytes_max: int = Field(
        1_073_741_824,
        ge=0,
        description="answers, of all streams together, that may wait on disk for clients that send before they read",
    )
    stream_errors_max: int = Field(
        1_000,
        ge=0,
        description="bad lines of a stream that are answered one by one; of others that stand together, one line"
        " tells how many there are",
    )
    inflated_ratio_max: int = Field(
        200,
        ge=1,
        description="how many times as large as it came a body may become that comes as gzip; 256 KiB in any case",
    )
    inflated_bytes_max: int = Field(
        1_073_741_824, ge=256, description="how large a stream may become that comes as gzip"
    )
    line_bytes_max: int = Field(1_048_576, ge=256, description="the longest line of a stream")
    items_max: int = Field(
        1_000, ge=1, le=100_000, description="requests that may be sent as one, as `items`"
    )
    fit_seconds_max: float = Field(3_600.0, gt=0, le=1e7, description="how long a fit or a replay may take")
    fit_memory_bytes_max: int = Field(
        default_factory=_of_a_child,
        json_schema_extra=_told("7/32 of the shared memory, divided among the processes"),
        ge=1_048_576,
        description="the memory that the process of a fit, a replay, a rebuild or an import may take",
    )
    fit_examples_bytes_max: int = Field(
        default_factory=lambda data: min(134_217_728, _of_a_child(data) // 4),
        json_schema_extra=_told("a quarter of that, at most 134217728"),
        ge=1_024,
        description="the rounds of its history that a model is fitted to: the newest that fit",
    )
    upload_bytes_max: int = Field(
        default_factory=lambda data: min(67_108_864, _share(3)(data)),
        json_schema_extra=_told("3/32 of the shared memory, at most 67108864"),
        ge=256,
        description="the largest body that brings a model or the examples of a fit",
    )
    head_bytes_max: int = Field(
        65_536,
        ge=1_024,
        description="the largest head of a request in bytes, from its first line to the empty one",
    )
    body_bytes_max: int = Field(1_048_576, ge=256, description="the largest body of a request")
    names_max: int = Field(
        100_000, ge=1, le=10_000_000, description="names that a model with named features may learn"
    )
    classes_max: int = Field(1_000, ge=2, le=CLASSES_MAX, description="the most classes of a model")
    weights_max: int = Field(
        default_factory=lambda data: min(33_554_432, _share(16)(data) // 16),
        json_schema_extra=_told("those that fill a quarter of the shared memory, at most 33554432"),
        ge=1,
        description="the most weights that a model may come to have, all classes together, of 8 bytes each;"
        " what a learner, `standardize`, `fourier` and `crosses` keep beside them counts too",
    )
    covariance_dimension_max: int = Field(
        512, ge=1, le=4096, description="the most weights of a learner with a full covariance"
    )
    features_max: int = Field(65_536, ge=1, description="the most features of an example")
    weight_max: float = Field(1e6, gt=0, le=1e9, description="the largest `weight` of a reveal")
    feature_abs_max: float = Field(
        1e100, gt=0, le=1e100, description="the largest absolute value of a feature"
    )


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
        raise InvalidSettings(f"there is no setting {', '.join(unknown)}; docs/settings.md has all there are")
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        fields = tuple(
            FieldError(f"{PREFIX}{e['loc'][0]}".upper(), e["msg"]) for e in error.errors(include_input=False)
        )
        raise InvalidSettings("; ".join(f"{f.field}: {f.message}" for f in fields), fields) from None
