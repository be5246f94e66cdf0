"""What tests of the page share: where Chromium is, how parts of the page are found, and what it may complain of."""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS, eventually

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
WAIT_SECONDS = PATIENCE_SECONDS

AWAY = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
"""What a browser complains of while a service is away; the latter two if it was about to be when it was asked."""

Open = Callable[..., Any]
"""Opens a page at an address of a service: the fixture `open_page`."""


NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""What Chromium may say when an interface of the machine comes or goes, and cut connections. No page can help it."""


class Complaints:
    """What the pages of a test have said on their consoles."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._expected = [NETWORK_CHANGED]

    def expect(self, *parts: str) -> None:
        """Those with one of these in them belong to the test, also if they come after this."""
        self._expected += parts

    @property
    def unexpected(self) -> list[str]:
        return [said for said in self.said if not any(part in said for part in self._expected)]


def go(page: Any, url: str) -> None:
    """Open an address, and anew if the machine's network has changed meanwhile."""

    def cuts() -> int:
        return sum(NETWORK_CHANGED in said for said in page.complaints.said)

    def is_whole() -> bool:
        before = cuts()
        try:
            page.goto(url)
        except Exception as error:
            if NETWORK_CHANGED not in str(error):
                raise
        else:
            if cuts() == before:
                return True
        page.goto("about:blank")  # or another fragment of the same address would load nothing
        return False

    eventually(is_whole, otherwise="the machine's network changes all the time")


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def tile(page: Any, name: str) -> Any:
    return page.locator(".tile", has=page.locator(f'dt:text-is("{name}")')).locator(".value")


def card(page: Any, title: str) -> Any:
    return page.get_by_role("region", name=title)


def percent(ratio: float | None, digits: int = 2) -> str:
    """As the page writes it."""
    return "–" if ratio is None else f"{fixed(100 * ratio, digits)}%".replace("-", "−")


def fixed(number: float, digits: int) -> str:
    """As `toFixed` of JavaScript writes it, which rounds halves up and not to even: 5.625 is 5.63."""
    return str(Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def state(page: Any) -> Any:
    return page.locator("#live")


def to_end_in(page: Any, address: str) -> None:
    """Wait until the address of the page ends so."""
    expect(page).to_have_url(re.compile(f"{re.escape(address)}$"))
