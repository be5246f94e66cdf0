"""What tests of the page share: where Chromium is, and how parts of the page are found."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_SECONDS = 60

Open = Callable[..., Any]
"""Opens a page at an address of a service: the fixture `open_page`."""


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def tile(page: Any, name: str) -> Any:
    return page.locator(".tile", has=page.locator(f'dt:text-is("{name}")')).locator(".value")


def card(page: Any, title: str) -> Any:
    return page.get_by_role("region", name=title)


def percent(ratio: float | None) -> str:
    """As the page writes it: JavaScript rounds halves up, Python to even."""
    if ratio is None:
        return "–"
    return f"{Decimal(100 * ratio).quantize(Decimal('0.01'), ROUND_HALF_UP)}%".replace("-", "−")


def state(page: Any) -> Any:
    return page.locator("#live")
