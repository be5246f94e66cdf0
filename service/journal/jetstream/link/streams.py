"""The settings of the journal's streams: missing streams are created, existing ones compared."""

from typing import Any

from service.errors import ClusterUnusable
from service.journal.jetstream.link.api import STREAM_NOT_FOUND, Api, ApiError
from service.journal.jetstream.subjects import Subjects

SAME_NAME_SECONDS = 120
"""How long the cluster recognises a second copy of an event that has no id."""

AGE_SECONDS_MIN = 0.1  # the cluster takes no less


def wanted_streams(subjects: Subjects, *, replicas: int, ids_kept_seconds: float) -> list[dict[str, Any]]:
    """The settings that the streams must have.

    The log may have `deny_delete`, as older versions have made it: then nothing can be forgotten.
    """
    common: dict[str, Any] = {
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": replicas,
        "allow_direct": True,
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        "duplicate_window": SAME_NAME_SECONDS * 10**9,
    }
    age = max(ids_kept_seconds, AGE_SECONDS_MIN)
    window = min(SAME_NAME_SECONDS, age)
    ids = {"max_age": round(age * 1e9), "duplicate_window": round(window * 1e9)}
    return [
        {**common, "name": subjects.log, "subjects": [subjects.lifecycles, subjects.events]},
        {**common, "name": subjects.ids, "subjects": [subjects.known_ids], "max_msgs_per_subject": 1, **ids},
        {**common, "name": subjects.state, "subjects": subjects.derived, "max_msgs_per_subject": 1},
    ]


async def make_or_check(api: Api, subjects: Subjects, wanted: list[dict[str, Any]]) -> None:
    """Create the streams that are missing; ClusterUnusable if one cannot be created or has other settings."""
    for stream in wanted:
        try:
            found = await api.request(f"STREAM.INFO.{stream['name']}")
        except ApiError as error:
            if error.refusal != STREAM_NOT_FOUND:
                raise _unusable(stream, error) from error
            try:
                found = await api.request(f"STREAM.CREATE.{stream['name']}", stream)
            except ApiError as refusal:
                raise _unusable(stream, refusal) from refusal
        before = subjects.before.get(stream["name"], [])
        if sorted(found["config"]["subjects"]) == sorted(before):  # `format.py` adds what can be added
            stream = {**stream, "subjects": before}
        compare(stream, found["config"])


def compare(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """ClusterUnusable if the settings of a stream differ, naming every difference."""
    differences = [
        f"{name} is {found.get(name)!r} instead of {value!r}"
        for name, value in wanted.items()
        if (
            sorted(found.get(name) or []) != sorted(value) if name == "subjects" else found.get(name) != value
        )
    ]
    if differences:
        raise ClusterUnusable(
            f"the stream {wanted['name']} is there, but {'; '.join(differences)}: give every replica the same"
            " settings, edit the stream, or take another NOVIKOFF_NATS_PREFIX"
        )


def _unusable(stream: dict[str, Any], error: ApiError) -> ClusterUnusable:
    return ClusterUnusable(f"the stream {stream['name']} cannot be had: {error.detail}")
