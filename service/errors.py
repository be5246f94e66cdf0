"""Everything that can go wrong, each with a stable code. No HTTP here: `web/problems.py` has the statuses.

NovikoffError
├── RequestError                 the client can correct it
│   ├── MalformedJson            malformed-json: a body that is not JSON
│   ├── InvalidRequest           invalid-request: fields that are missing, unknown or out of range
│   ├── Unauthorized             unauthorized: no API key, or an invalid one
│   ├── Forbidden                forbidden: the key lacks the permission
│   ├── UnknownLabel             unknown-label
│   ├── UnknownModel             unknown-model
│   ├── UnknownPrediction        unknown-prediction
│   ├── PredictionExpired        prediction-expired
│   ├── PredictionVoid           prediction-void: it was voided
│   ├── ForgetUnsupported        forget-unsupported: not with this journal
│   ├── NotRevealed              not-revealed: there is no label to correct
│   ├── VersionGone              version-gone: too old, no longer kept
│   ├── ModelExists              model-exists
│   ├── TooManyModels            too-many-models
│   ├── UnknownChallenger        unknown-challenger
│   ├── ChallengerExists         challenger-exists
│   ├── InvalidExport            invalid-export
│   ├── UnknownJob               unknown-job
│   ├── JobRunning               job-running
│   ├── FeedbackConflict         feedback-conflict
│   ├── PredictionIdTaken        prediction-id-taken
│   └── RevealFirst              reveal-first
├── Unavailable                  try again later
│   ├── JournalUnavailable       journal-unavailable
│   │   ├── JournalFull          journal-full
│   │   ├── OutcomeUnknown       outcome-unknown: it may have been done, or may yet be
│   │   └── ModelUnreadable      journal-unavailable, of one model: the others may be well
│   │       └── ModelDamaged     model-damaged: it is not served until it is deleted
│   ├── PredictionUnderWay       prediction-under-way
│   ├── VersionNotReached        version-not-reached
│   └── Overloaded               overloaded
│       └── TooManyPending       the same, until predictions are revealed or expire
└── StartError                   the service cannot start
    ├── InvalidSettings          invalid-settings
    ├── AddressUnusable          address-unusable
    ├── DirectoryLocked          directory-locked
    ├── DirectoryUnusable        directory-unusable
    ├── ClusterUnusable          cluster-unusable
    ├── JournalDamaged           journal-damaged
    ├── JournalMissing           journal-missing: the directory has been used, and its journal is not there
    └── NewerSchema              newer-schema
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

from novikoff.errors import FieldError as FieldError
from novikoff.errors import NovikoffError as NovikoffError

E = TypeVar("E", bound=BaseException)


def unknown(name: str, known: Iterable[str], what: str = "field") -> str:
    """What is said of a name that is not known, with the nearest one that is, or the same one of an inner object.

    >>> unknown("labl", ["label", "model"]), unknown("x", ["label"])
    ('unknown field; did you mean `label`?', 'unknown field')
    >>> unknown("algorithm", ["model", "learner", "learner.algorithm"])
    'unknown field; did you mean `learner.algorithm`?'
    """
    names = sorted(known)
    within = [each for each in names if each.rpartition(".")[2] == name]
    near = within or get_close_matches(name, names, 1)
    return f"unknown {what}" + (f"; did you mean `{near[0]}`?" if near else "")


def kept(error: E) -> E:
    """An error of ours to be kept until it is answered, without the frames that it came through.

    These hold on to all that was in them, the place where the error is kept too: only a garbage collection would free
    them, and one of thousands of bad lines delays all others. Unexpected errors keep them for the log.
    """
    if isinstance(error, NovikoffError):
        error.__traceback__ = error.__context__ = None
    return error


class RequestError(NovikoffError):
    pass


class InvalidRequest(RequestError):
    code = "invalid-request"

    @classmethod
    def at(cls, field: str, message: str) -> "InvalidRequest":
        """One wrong field.

        >>> InvalidRequest.at("model", "is missing").detail
        'model: is missing'
        """
        return cls(f"{field}: {message}", (FieldError(field, message),))


class MalformedJson(RequestError):
    code = "malformed-json"


class Unauthorized(RequestError):
    code = "unauthorized"


class Forbidden(RequestError):
    code = "forbidden"


class UnknownLabel(RequestError):
    code = "unknown-label"


class UnknownModel(RequestError):
    code = "unknown-model"


class UnknownPrediction(RequestError):
    code = "unknown-prediction"


class PredictionExpired(RequestError):
    code = "prediction-expired"


class PredictionVoid(RequestError):
    code = "prediction-void"


class ForgetUnsupported(RequestError):
    code = "forget-unsupported"


class NotRevealed(RequestError):
    code = "not-revealed"


class VersionGone(RequestError):
    code = "version-gone"

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"version {version} is no longer kept; the oldest available is {oldest}")
        self.members = {"oldest_version": oldest}


class ModelExists(RequestError):
    code = "model-exists"


class TooManyModels(RequestError):
    code = "too-many-models"


class UnknownChallenger(RequestError):
    code = "unknown-challenger"


class ChallengerExists(RequestError):
    code = "challenger-exists"


class InvalidExport(RequestError):
    code = "invalid-export"


class UnknownJob(RequestError):
    code = "unknown-job"


class JobRunning(RequestError):
    code = "job-running"


class FeedbackConflict(RequestError):
    code = "feedback-conflict"


class PredictionIdTaken(RequestError):
    code = "prediction-id-taken"


class RevealFirst(RequestError):
    code = "reveal-first"


class Unavailable(NovikoffError):
    pass


class JournalUnavailable(Unavailable):
    code = "journal-unavailable"


class JournalFull(JournalUnavailable):
    code = "journal-full"


class OutcomeUnknown(JournalUnavailable):
    """The write may be in the journal, or reach it yet; a retry with the same id tells."""

    code = "outcome-unknown"


class PredictionUnderWay(Unavailable):
    code = "prediction-under-way"


class ModelUnreadable(JournalUnavailable):
    """What the journal has of one model cannot be read; lists go on without it."""


class ModelDamaged(ModelUnreadable):
    """It will never be read by this program, or an event of it cannot be applied: see `engine/fleet/loading.py`."""

    code = "model-damaged"


class VersionNotReached(Unavailable):
    code = "version-not-reached"


class Overloaded(Unavailable):
    code = "overloaded"


class TooManyPending(Overloaded):
    """No more predictions can wait for their labels."""


class StartError(NovikoffError):
    pass


class InvalidSettings(StartError):
    code = "invalid-settings"


class AddressUnusable(StartError):
    code = "address-unusable"


class DirectoryLocked(StartError):
    code = "directory-locked"


class DirectoryUnusable(StartError):
    code = "directory-unusable"


class ClusterUnusable(StartError):
    code = "cluster-unusable"


class JournalDamaged(StartError):
    code = "journal-damaged"


class JournalMissing(StartError):
    code = "journal-missing"


class NewerSchema(StartError):
    code = "newer-schema"
