"""Novikoff's Python clients: online learning over HTTP.

    import novikoff

    with novikoff.Client("http://127.0.0.1:8000") as client:
        prediction = client.predict("spam", [1.0, 0.0, 2.5])
        client.feedback(prediction.prediction_id, 1)

The names here are those of `service.client`, where they are made; the service itself is the package `service`.
"""

from service.client import *  # noqa: F403
from service.client import __all__ as __all__
