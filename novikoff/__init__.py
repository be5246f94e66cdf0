"""Clients of the service, the shapes of its responses, and the exceptions: what other programs import.

    with Client("http://127.0.0.1:8000") as client:
        prediction = client.predict("spam", [1.0, 0.0, 2.5])
        client.feedback(prediction.prediction_id, 1)

The same calls wait (`Client`) or are awaited (`AsyncClient`). A call that was cut off is repeated where that is safe,
so a restart of the service goes unnoticed: a reveal counts once however often it is sent, and predictions and whole
rounds carry an id for the same reason.

What is named here is loaded when it is first used: `novikoff.schemas` and `novikoff.errors`, which the service shares,
do not wait for the clients.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from novikoff.async_client import *
    from novikoff.calls import *
    from novikoff.client import *
    from novikoff.errors import *
    from novikoff.remote_model import *
    from novikoff.schemas import *

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "AttentionPage",
    "BadOption",
    "Caller",
    "Client",
    "Correction",
    "CutOff",
    "DryRun",
    "Ended",
    "Event",
    "Fleet",
    "Forgotten",
    "Frame",
    "Job",
    "LargestWeights",
    "Learned",
    "ModelInfo",
    "NotUnderstood",
    "NovikoffError",
    "Outcome",
    "PastRound",
    "PendingPrediction",
    "Prediction",
    "Refused",
    "RemoteModel",
    "Stats",
    "Unreachable",
    "Weights",
    "make_id",
]
_MODULES = ("errors", "schemas", "calls", "client", "async_client", "remote_model")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'novikoff' has no attribute {name!r}")
    for module in _MODULES:
        found = import_module(f"novikoff.{module}")
        if hasattr(found, name):
            break
    return globals().setdefault(name, getattr(found, name))
