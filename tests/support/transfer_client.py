"""A client that moves models: exports one, imports it under another name, trains it by a fit, and deletes it again."""

from itertools import count
from typing import Any, Protocol

import httpx

EXAMPLES = [{"features": [float(x)] * 8, "label": 1 if x > 0 else -1} for x in (-2, -1, 1, 2)]


class Sender(Protocol):
    over: bool

    async def send(self, kind: str, method: str, path: str, body: Any) -> httpx.Response: ...


async def move_models(sender: Sender, source: str) -> None:
    """Until it is over. Models of eight features are expected."""
    for number in count():
        if sender.over:
            return
        copy = f"copy-{number}"
        export = await sender.send("export", "GET", f"/models/{source}/export", None)
        await sender.send("import", "PUT", f"/models/{copy}", export.json() if export.is_success else {})
        await sender.send("fit", "POST", f"/models/{copy}/fit", {"examples": EXAMPLES})
        await sender.send("look", "GET", f"/stats/{copy}", None)
        await sender.send("delete", "DELETE", f"/models/{copy}", None)
