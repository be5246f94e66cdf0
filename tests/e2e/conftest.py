from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.pages import ARGUMENTS, CHROMIUM, WAIT_SECONDS, Complaints, Open, go
from tests.support.missing_programs import missing
from tests.support.nats_servers import NatsCluster
from tests.support.service_process import Service


@pytest.fixture(scope="module")
def nats_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    """Three servers that the tests of a module share."""
    cluster = NatsCluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        missing("the page is tested with playwright: pip install playwright")
    if not CHROMIUM.exists():
        missing(f"the page is tested with {CHROMIUM}: apt-get install chromium")
    expect.set_options(timeout=WAIT_SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=WAIT_SECONDS * 1000
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a page at an address of a service. In the end, no page may have complained on its console, but for what
    the test has expected."""
    pages: list[Any] = []
    complaints = Complaints()

    def open_one(service: Service, address: str = "#/", width: int = 1280, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.on("pageerror", lambda error: complaints.said.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.said.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("dialog", lambda dialog: complaints.said.append(f"alert: {dialog.message}"))
        page.complaints = complaints
        pages.append(page)
        go(page, f"{service.url}/{address}")
        return page

    yield open_one
    for page in pages:
        page.close()
    assert complaints.unexpected == []
