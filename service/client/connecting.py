"""The options of a client's connection: URL, key, timeout."""

from typing import Any

import httpx

from service.client.problems import BadOption

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 10.0
PORT_MAX = 65_535


def options(url: str, key: str | None, timeout_seconds: float) -> dict[str, Any]:
    """The options of an httpx client, sync or async; BadOption if the URL or the key cannot be used.

    >>> options("localhost:8000", "secret", 1.0)["headers"]["Authorization"]
    'Bearer secret'
    """
    address = _address(url)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise BadOption("the key has characters that no key has")
    headers = {"user-agent": "novikoff-client"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return {
        "base_url": address,
        "headers": headers,
        "timeout": httpx.Timeout(timeout_seconds),
    }


def _address(url: str) -> httpx.URL:
    """
    >>> _address("localhost:8000"), _address("https://example.org/models")
    (URL('http://localhost:8000'), URL('https://example.org/models'))
    >>> _address("http://localhost:99999")
    Traceback (most recent call last):
    service.client.problems.BadOption: 'http://localhost:99999' is not the URL of a service
    """
    try:
        address = httpx.URL(url if "://" in url else f"http://{url}")
    except httpx.InvalidURL:
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host or (address.port or 0) > PORT_MAX:
        raise BadOption(f"{url!r} is not the URL of a service")
    return address
