"""Who is calling: the key of the request that is being answered, and what it may see and change."""

from contextvars import ContextVar

from service.errors import Forbidden, Unauthorized, UnknownJob, UnknownModel
from service.web.access.keys import Key

caller: ContextVar[Key | None] = ContextVar("caller", default=None)
"""None where no key is needed. Set by the gate, for whatever the request does."""

OWN = "/"
"""Between a key's prefix and an id that its holder chose; neither can have it in itself."""


def limit() -> Key | None:
    """The caller's key, if it is limited to some models; Unauthorized if it was taken back meanwhile."""
    key = caller.get()
    if key is None:
        return None
    if key.revoked:
        raise Unauthorized("this key is no longer valid")
    return key if key.prefix else None


def prefix() -> str:
    """What the names of the models begin with that the caller may know of."""
    key = limit()
    return key.prefix if key is not None else ""


def check_known(model: str) -> None:
    """A model that is none of the caller's is unknown, whether there is one or not."""
    if not model.startswith(prefix()):
        raise UnknownModel(f"there is no model {model!r}")


def check_own(model: str) -> None:
    """Forbidden to make or teach a model that is none of the caller's, whether there is one or not."""
    key = limit()
    if key is not None and not model.startswith(key.prefix):
        raise Forbidden(f"this key is for models whose names begin with {key.prefix!r}")


def check_known_job(job_id: str, model: str) -> None:
    if not model.startswith(prefix()):
        raise UnknownJob(f"there is no job {job_id!r}")
