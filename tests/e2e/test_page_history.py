"""A model's past on its page, and what if it had been another, in a real browser."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.pages import Open, card, expect, percent, state, tile, to_end_in
from tests.support.service_process import Service

Start = Callable[..., Service]


def rounds(many: int, seed: int = 3) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    lines = []
    for _ in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(4)]
        lines.append({"features": x, "label": 1 if sum(x) + chance.gauss(0, 1) > 0 else -1})
    return lines


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_a_model_as_it_was_and_leads_back_to_now(
    service: Service, name: str, open_page: Open, width: int
) -> None:
    service.create(name)
    service.stream(rounds(300), name)
    then = service.get(f"/stats/{name}?at=100")
    page = open_page(service, f"#/models/{name}?at=100", width)
    versions = page.get_by_role("region", name="Versions")
    expect(versions).to_contain_text("100 of 300")
    expect(versions).to_contain_text("You see the model as it was on")
    expect(tile(page, "Rounds")).to_have_text("100")
    expect(tile(page, "Mistakes")).to_have_text(str(then["mistakes"]))
    cells = [str(cell) for row in then["confusion"]["matrix"] for cell in row]
    expect(card(page, "Confusion").locator(".cell")).to_have_text(cells)
    weights = service.get(f"/models/{name}/weights?at=100&largest=1")["classes"][0]["weights"]
    largest = card(page, "Largest weights")
    expect(largest.locator("tbody th").first).to_have_text(f"x[{weights[0]['feature']}]")
    expect(largest).not_to_contain_text("undefined")
    expect(card(page, "Try it")).to_be_hidden()
    slider = page.get_by_role("slider", name="Version")
    slider.press("ArrowRight")
    expect(tile(page, "Rounds")).to_have_text("101")
    to_end_in(page, "?at=101")
    service.learn(name, [1.0, 1.0, 1.0, 1.0], 1)
    expect(versions).to_contain_text("101 of 301")
    expect(tile(page, "Rounds")).to_have_text("101")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    page.get_by_role("button", name="Back to now").click()
    expect(tile(page, "Rounds")).to_have_text("301")
    expect(versions).to_contain_text("301, now")
    expect(card(page, "Try it")).to_be_visible()
    to_end_in(page, f"#/models/{name}")
    slider.press("Home")
    expect(tile(page, "Rounds")).to_have_text("0")
    slider.press("End")
    expect(tile(page, "Rounds")).to_have_text("301")


def test_a_version_that_is_gone_is_told_in_words_and_the_model_shown_as_it_is(
    start: Start, name: str, open_page: Open
) -> None:
    service = start(snapshot_every_events=5, events_kept_max=40)
    for line in rounds(120):
        service.learn(name, line["features"], line["label"])
    service.restart()
    oldest = service.client.get(f"/stats/{name}?at=0").json()["oldest_version"]
    page = open_page(service, f"#/models/{name}?at=3")
    versions = page.get_by_role("region", name="Versions")
    expect(versions).to_contain_text(
        f"Version 3 is no longer kept. The oldest available is {oldest}. This page shows the current model."
    )
    expect(tile(page, "Rounds")).to_have_text("120")
    page.get_by_role("slider", name="Version").press("Home")
    expect(tile(page, "Rounds")).to_have_text(str(oldest))
    page.goto("about:blank")
    page.goto(f"{service.url}/#/models/{name}?at=999")
    expect(versions).to_contain_text("There is no version 999 yet.")
    expect(tile(page, "Rounds")).to_have_text("120")
    page.complaints.expect("410", "422")


def test_other_settings_are_tried_kept_and_let_in_as_a_challenger(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name)
    service.stream(rounds(500), name)
    page = open_page(service, f"#/models/{name}")
    expect(state(page)).to_have_text("Live")
    shown = card(page, "What if")
    shown.get_by_role("button", name="+ arow").click()
    shown.get_by_role("button", name="+ standardized").click()
    shown.get_by_role("button", name="Replay the history").click()
    rows = shown.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text(percent(service.stats(name)["error_rate"]))
    expect(rows.nth(1).locator("th")).to_have_text("arow")
    expect(rows.nth(2).locator("th")).to_have_text("features (kind dense, standardize true)")
    expect(shown).to_contain_text("“arow” is better than the model with a confidence of")
    expect(shown.locator(".chart path.line")).to_have_count(3)
    rows.nth(1).get_by_role("button", name="Challenge").click()
    shown.get_by_label("Let “arow” be a challenger, called").fill("steady")
    shown.get_by_role("button", name="Add", exact=True).click()
    expect(shown).to_contain_text("steady has learned the history, and is a challenger now.")
    expect(card(page, "Challengers").locator("tbody tr").nth(1)).to_contain_text("arow, warm")
    expect(card(page, "Audit trail")).to_contain_text("steady was added, with 500 rounds of history learned")
    rows.nth(1).get_by_role("button", name="Keep").click()
    shown.get_by_label("Keep “arow” as a model, called").fill(f"{name}-kept")
    page.keyboard.press("Enter")
    shown.get_by_role("link", name=f"{name}-kept").click()
    expect(tile(page, "Rounds")).to_have_text("500")
    expect(page.locator(".about")).to_contain_text("arow")


def test_what_is_wrong_with_a_replay_is_told_and_a_slow_one_cancelled(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name)
    service.stream(rounds(5_000), name)  # to replay them takes minutes
    page = open_page(service, f"#/models/{name}")
    shown = card(page, "What if")
    settings, go = shown.get_by_role("textbox"), shown.get_by_role("button", name="Replay the history")
    settings.fill("{}\nnot this")
    go.click()
    expect(shown.get_by_role("alert")).to_have_text("Line 2 is not an object of JSON.")
    settings.fill('{"labels": ["a", "b"]}')
    go.click()
    expect(shown.get_by_role("alert")).to_contain_text("labels")
    slow = (
        '{"learner": {"algorithm": "arow", "covariance": "full"}, "features": {"fourier": {"features": 500}}}'
    )
    settings.fill("\n".join([slow] * 32))
    go.click()
    expect(shown.get_by_role("progressbar")).to_be_visible()
    page.reload()  # the tab remembers which job it had started
    expect(shown.get_by_role("progressbar")).to_be_visible()
    shown.get_by_role("button", name="Cancel").click()
    expect(shown.get_by_role("alert")).to_have_text("It was cancelled.")
    expect(go).to_be_enabled()
    page.complaints.expect("422")


def test_features_of_words_can_be_standardized_by_a_press_of_a_button(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, features={"kind": "named", "text": ["subject"]})
    for number in range(20):
        service.learn(name, {"subject": "buy now" if number % 2 else "hello you"}, 1 if number % 2 else -1)
    page = open_page(service, f"#/models/{name}")
    shown = card(page, "What if")
    expect(card(page, "Settings")).to_contain_text("subject")
    shown.get_by_role("button", name="+ standardized").click()
    shown.get_by_role("button", name="Replay the history").click()
    expect(shown.locator("tbody tr")).to_have_count(2)
