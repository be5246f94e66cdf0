"""Where a client connects, and how."""

from typing import Any

import httpx

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 10.0


def options(url: str, key: str | None, timeout_seconds: float) -> dict[str, Any]:
    """The options of an httpx client, waiting or not.

    >>> options("localhost:8000", "secret", 1.0)["headers"]["Authorization"]
    'Bearer secret'
    """
    headers = {"user-agent": "novikoff-client"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return {
        "base_url": url if "://" in url else f"http://{url}",
        "headers": headers,
        "timeout": httpx.Timeout(timeout_seconds),
    }
