"""Python clients of the service: the same calls, waiting (`Client`) or awaited (`AsyncClient`).

    with Client("http://127.0.0.1:8000") as client:
        prediction = client.predict("spam", [1.0, 0.0, 2.5])
        client.feedback(prediction.prediction_id, 1)

A call that was cut off is repeated where that is safe, so a restart of the service goes unnoticed: a reveal
counts once however often it is sent, and predictions and whole rounds carry an id for the same reason.
"""

from service.answers import AttentionPage, Caller, Correction, Forgotten, ModelInfo, PendingPrediction, Stats
from service.client.answers import (
    DryRun,
    Event,
    Fleet,
    Job,
    LargestWeights,
    Learned,
    Outcome,
    PastRound,
    Prediction,
    Weights,
)
from service.client.asynchronous import AsyncClient
from service.client.calls import make_id
from service.client.feed_frames import Frame
from service.client.problems import BadOption, CutOff, Ended, NotUnderstood, Refused, Unreachable
from service.client.remote_model import RemoteModel
from service.client.sync import Client
from service.errors import NovikoffError

__all__ = [
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
