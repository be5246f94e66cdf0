"""What the page says and does while the service is away."""

import re
from pathlib import Path

from tests.e2e.pages import AWAY, Open, expect, state, tile
from tests.e2e.test_page import OnOnePort

RETURN_MS = 3000
"""So long after the service is back, the page is live again."""


def test_the_page_says_that_the_service_is_away_and_is_live_soon_after_its_return(
    tmp_path: Path, open_page: Open
) -> None:
    service = OnOnePort(tmp_path / "data").start()
    try:
        service.learn("steady", [1.0, 2.0], 1)
        page = open_page(service, "dashboard/favicon.svg")
        page.clock.install()
        page.goto(f"{service.url}/#/models/steady")
        expect(state(page)).to_have_text("Live")
        expect(tile(page, "Rounds")).to_have_text("1")
        away = page.locator(".away")
        expect(away).to_be_hidden()
        service.stop()
        expect(away).to_contain_text("The service does not respond. What you see is as of")
        for _ in range(6):  # however long it is away
            expect(away).to_contain_text("Trying again in")
            page.clock.fast_forward(RETURN_MS)
        expect(state(page)).to_have_text(re.compile(r"^Stale since \d\d:\d\d:\d\d \S+$"))
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        expect(away).to_be_in_viewport(ratio=1)
        expect(tile(page, "Rounds")).to_have_text("1")
        page.get_by_label("Features").fill("1, 2")
        page.get_by_role("button", name="Predict").click()
        expect(page.get_by_role("alert")).to_have_text("The service does not respond. Try again in a moment.")
        expect(away).to_contain_text("Trying again in")
        service.start()
        page.clock.fast_forward(RETURN_MS)
        expect(state(page)).to_have_text("Live")
        expect(away).to_be_hidden()
        expect(page.get_by_role("alert")).to_have_count(0)
        service.stop()
        page.complaints.expect(*AWAY)
        page.close()
    finally:
        service.close()


def test_a_label_that_found_nobody_is_told_until_the_return(tmp_path: Path, open_page: Open) -> None:
    service = OnOnePort(tmp_path / "data").start()
    try:
        service.learn("steady", [1.0, 2.0], 1)
        service.predict("steady", [1.0, 2.0])
        page = open_page(service, "#/models/steady/labels")
        expect(page.locator(".inbox-served")).to_be_visible()
        service.stop()
        page.keyboard.press("Enter")
        said = page.locator(".inbox-said")
        expect(said).to_have_text("The service does not respond. Try again in a moment.")
        service.start()
        expect(state(page)).to_have_text("Live")
        expect(said).to_have_text("")
        page.keyboard.press("Enter")
        expect(said).to_have_text("1: as it was served. 1 label by you.")
        page.complaints.expect("net::ERR_")
        page.close()
    finally:
        service.close()


def test_the_form_of_a_new_model_knows_that_the_service_is_away(tmp_path: Path, open_page: Open) -> None:
    service = OnOnePort(tmp_path / "data").start()
    try:
        page = open_page(service, "#/new")
        name = page.get_by_label("Name")
        name.fill("kept")
        expect(state(page)).to_have_text("Live")
        service.stop()
        expect(page.locator(".away")).to_contain_text("The service does not respond.")
        expect(state(page)).not_to_have_text("Live")
        service.start()
        expect(state(page)).to_have_text("Live")
        expect(name).to_have_value("kept")
        page.complaints.expect("net::ERR_")
        page.close()
    finally:
        service.close()
