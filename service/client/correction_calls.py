"""The requests that put right what was wrong. Each may be repeated: the same correction again changes nothing."""

from typing import Any
from urllib.parse import quote

import msgspec

from service.answers import Correction, Forgotten, Label
from service.client.calls import Call

_encode = msgspec.json.Encoder().encode


def correct(prediction_id: str, label: Label, reason: str | None) -> Call[Correction]:
    body: dict[str, Any] = {"label": label} | ({} if reason is None else {"reason": reason})
    return Call("PUT", f"/feedback/{quote(prediction_id, safe='')}", Correction, _encode(body))


def void(prediction_id: str) -> Call[Correction]:
    return Call("DELETE", f"/predictions/{quote(prediction_id, safe='')}", Correction)


def forget(model: str, tag: str) -> Call[Forgotten]:
    return Call("POST", f"/models/{quote(model, safe='')}/forget", Forgotten, _encode({"tag": tag}))
