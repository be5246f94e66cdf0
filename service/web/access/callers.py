"""Who is calling: the key of the request that is being answered, and what it may see and change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from service.errors import Forbidden, Unauthorized, UnknownJob, UnknownModel
from service.web.access.keys import Key

caller: ContextVar[Key | None] = ContextVar("caller", default=None)
"""The key of the request, set by the gate; None where no key is needed."""

NO_LONGER_VALID = "this key is no longer valid"

OWNER_SEPARATOR = "/"
"""Stands between a key's prefix and an id that its holder chose; neither can contain it."""


def restricted_key() -> Key | None:
    """The caller's key if it is restricted to a prefix, else None; Unauthorized if it was revoked meanwhile."""
    key = caller.get()
    if key is None:
        return None
    if key.revoked:
        raise Unauthorized(NO_LONGER_VALID)
    return key if key.prefix else None


@contextmanager
def told_of_revocation(tell: Callable[[], None]) -> Iterator[None]:
    """`tell` is called if the caller's key is revoked meanwhile."""
    key = caller.get()
    if key is None:
        yield
        return
    key.when_revoked.add(tell)
    try:
        yield
    finally:
        key.when_revoked.discard(tell)


def prefix() -> str:
    """The prefix of the models that the caller may see; empty for all."""
    key = restricted_key()
    return key.prefix if key is not None else ""


def check_known(model: str) -> None:
    """UnknownModel for a model that is not the caller's, whether it exists or not."""
    if not model.startswith(prefix()):
        raise UnknownModel(f"there is no model {model!r}")


def check_own(model: str) -> None:
    """Forbidden for creating or teaching a model that is not the caller's, whether it exists or not."""
    key = restricted_key()
    if key is not None and not model.startswith(key.prefix):
        raise Forbidden(f"this key is for models whose names begin with {key.prefix!r}")


def check_known_job(job_id: str, model: str) -> None:
    if not model.startswith(prefix()):
        raise UnknownJob(f"there is no job {job_id!r}")
