"""The chart of a model's error: over rounds or time, and a part of it, in the link."""

import random
import re
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.e2e.pages import Open, card, expect
from tests.golden.archives import FILES, unpack
from tests.golden.fleet import OPENED_WITH
from tests.support.service_process import Service
from tests.support.waiting import eventually

ROUNDS = 1000


@pytest.fixture
def model(service: Service, name: str) -> str:
    """A model with a thousand rounds."""
    chance = random.Random(5)
    lines: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        x = [round(chance.gauss(0, 1), 3) for _ in range(3)]
        lines.append({"features": x, "label": 1 if sum(x) + chance.gauss(0, 1) > 0 else -1})
    service.create(name)
    service.stream(lines, name)
    return name


def asked(page: Any) -> dict[str, str]:
    """What the address asks for: read in the page, since the browser tells of a new one in its own time."""
    address: str = page.evaluate("location.hash")
    return {key: value[0] for key, value in parse_qs(address.partition("?")[2]).items()}


def ticks(chart: Any) -> Any:
    """The texts below the horizontal axis."""
    return chart.locator(".axes text:not([dy])")


def drag(page: Any, chart: Any, start: float, end: float) -> None:
    """Over these shares of a chart's width."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + start * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_part_of_the_chart_is_chosen_by_keyboard_and_is_in_the_link(
    service: Service, model: str, open_page: Open, width: int
) -> None:
    page = open_page(service, f"#/models/{model}", width)
    shown = card(page, "Error over rounds")
    chart = shown.locator(".chart")
    words = shown.get_by_role("group", name="Part of the chart").get_by_role("status")
    button = {each: shown.get_by_role("button", name=each) for each in ("Zoom in", "Earlier", "Show all")}
    expect(button["Show all"]).to_be_disabled()
    button["Zoom in"].press("Enter")
    expect(words).to_have_text("Rounds 250 to 750")
    assert asked(page) == {"from": "250", "to": "750"}
    button["Earlier"].press("Enter")
    expect(words).to_have_text("Rounds 0 to 500")
    assert asked(page) == {"to": "500"}
    expect(ticks(chart).first).to_have_text("0")
    expect(ticks(chart).last).to_have_text("500")
    expect(button["Zoom in"]).to_be_focused()  # there is nothing earlier: the focus is not lost
    page.reload()
    expect(words).to_have_text("Rounds 0 to 500")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    button["Show all"].press("Enter")
    expect(words).to_have_text("")
    assert asked(page) == {}
    expect(ticks(chart).last).to_have_text("1K")


def test_a_part_is_chosen_by_dragging_and_one_without_an_end_grows(
    service: Service, model: str, open_page: Open
) -> None:
    page = open_page(service, f"#/models/{model}")
    shown = card(page, "Error over rounds")
    chart = shown.locator(".chart")
    words = shown.get_by_role("group", name="Part of the chart").get_by_role("status")
    expect(chart.locator(".line").first).to_be_visible()
    drag(page, chart, 0.5, 1.0)
    expect(words).to_contain_text("to 1,000")
    found = asked(page)
    assert set(found) == {"from"} and 400 < int(found["from"]) < 600
    service.learn(model, [1.0, 1.0, 1.0], 1)
    expect(words).to_have_text(f"Rounds {found['from']} to 1,001")
    chart.press("ArrowRight")
    expect(chart.locator(".tip strong")).to_have_text("Round 1,001")
    for _ in range(41):
        chart.press("ArrowLeft")
    first = int(chart.locator(".tip strong").inner_text().removeprefix("Round "))
    assert int(found["from"]) <= first < int(found["from"]) + 20, "nothing is read that is not shown"


def test_a_link_to_what_is_not_there_shows_all(service: Service, model: str, open_page: Open) -> None:
    page = open_page(service, f"#/models/{model}?from=5000&to=9000")
    chart = card(page, "Error over rounds").locator(".chart")
    expect(ticks(chart).last).to_have_text("1K")
    page.goto("about:blank")
    page.goto(f"{service.url}/#/models/{model}?from=nonsense&to=-3")
    expect(ticks(chart).last).to_have_text("1K")
    page.goto("about:blank")
    page.goto(f"{service.url}/#/models/{model}?at=800&from=200&to=400")
    shown = card(page, "Error over rounds")
    expect(shown).to_contain_text("Rounds 200 to 400")
    page.get_by_role("button", name="Back to now").click()
    expect(shown).to_contain_text("Rounds 200 to 400")
    assert asked(page) == {"from": "200", "to": "400"}


def test_the_chart_goes_over_time_too_with_marks_where_things_happened(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name)
    service.learn(name, [1.0, 1.0], 1)
    service.post(f"/models/{name}/reset", {})
    times: list[int] = [0, 0]
    while times[-1] - times[0] < 100:  # points that an eye can tell apart
        service.learn(name, [1.0, -1.0], 1 if len(times) % 3 else -1)
        times = service.stats(name)["curve"]["times"]
    assert times == sorted(times) and len(times) == service.stats(name)["rounds"]["revealed"] + 1
    examples = [{"features": [1.0, 1.0], "label": 1}, {"features": [-1.0, 1.0], "label": -1}]
    job = service.post(f"/models/{name}/fit", {"examples": examples})["id"]
    eventually(lambda: service.get(f"/jobs/{job}")["state"] == "done")
    page = open_page(service, f"#/models/{name}", timezone_id="Asia/Tokyo")
    shown = card(page, "Error over")  # rounds, or time
    chart, marks = shown.locator(".chart"), shown.locator(".mark title")
    rounds = service.stats(name)["rounds"]["revealed"]
    expect(marks).to_have_text([f"fit, {rounds:,}", "reset, 0"])
    told = f"a job trained it on a set of examples, round {rounds:,}"
    expect(card(page, "Audit trail")).to_contain_text(told)
    assert service.get(f"/models/{name}/events?kinds=fitted")["events"][0]["round"] == rounds
    shown.get_by_role("button", name="Time").press("Enter")
    words = shown.get_by_role("group", name="Part of the chart").get_by_role("status")
    one = r"\d+ \w+ \d{4}, \d\d:\d\d:\d\d GMT\+9"
    expect(words).to_have_text(re.compile(f"^{one} to {one}$"))
    expect(marks).to_have_text([re.compile(f"^fit, {rounds:,}, {one}$"), re.compile(f"^reset, 0, {one}$")])
    assert asked(page) == {"axis": "time"}
    chart.press("ArrowRight")
    expect(chart.locator(".tip strong")).to_have_text(re.compile(one))
    shown.get_by_role("button", name="Zoom in").press("Enter")
    found = asked(page)
    assert set(found) == {"axis", "from", "to"} and found["from"] < found["to"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found[end]) for end in ("from", "to"))
    page.reload()
    expect(marks).to_have_count(0)
    expect(shown.get_by_role("button", name="Show all")).to_be_enabled()
    shown.get_by_role("button", name="Rounds").press("Enter")
    expect(marks).to_have_text([f"fit, {rounds:,}", "reset, 0"])
    assert asked(page) == {}


def in_bursts(service: Service, name: str) -> str:
    """A model that has learned in three bursts, with silences between them that are long beside the bursts.

    A machine that is slow in one burst only may spoil that: then the next model is taken.
    """
    for attempt in count():
        model = f"{name}-{attempt}"
        service.create(model)
        took: list[float] = []
        silences: list[float] = []
        for _ in range(3):
            began = time.monotonic()
            for number in range(80):
                service.learn(model, [1.0, float(number % 5 - 2)], 1 if number % 3 else -1)
            took.append(time.monotonic() - began)
            silences.append(max(1.0, 2 * max(took)))
            if len(took) < 3:
                time.sleep(silences[-1])
        if min(silences) >= max(took):  # and so more than ten times as long as is usual between two rounds
            return model
    raise AssertionError


def test_over_time_no_line_is_drawn_where_no_rounds_came(
    service: Service, name: str, open_page: Open
) -> None:
    name = in_bursts(service, name)
    page = open_page(service, f"#/models/{name}")
    line = page.locator(".series.recent .line")
    expect(line).to_have_attribute("d", re.compile("^M[^M]+$"))
    page.get_by_role("button", name="Time").click()
    expect(page.get_by_role("heading", name="Error over time")).to_be_visible()
    # Three parts, or more where the machine stood still.
    expect(line).to_have_attribute("d", re.compile("^(M[^M]+){3,}$"))
    for other in (".series.cumulative .line", ".series.band .area", ".series.recent .area"):
        expect(page.locator(other)).to_have_attribute("d", re.compile("^(M[^M]+){3,}$"))
    page.get_by_role("button", name="Rounds").click()
    expect(page.get_by_role("heading", name="Error over rounds")).to_be_visible()


def test_a_fit_by_a_version_that_noted_no_round_is_said_to_have_no_mark_over_rounds(
    start: Callable[..., Service], open_page: Open, tmp_path: Path
) -> None:
    service = start(unpack(FILES / "stopped.tar.xz", tmp_path / "data"), **OPENED_WITH)
    page = open_page(service, "#/models/fitted.two.standardize")
    shown = card(page, "Error over rounds")
    expect(shown).to_contain_text("1 fit or rollback is marked over time only: an older version")
    expect(shown.locator(".mark")).to_have_count(0)
    expect(card(page, "Audit trail")).to_contain_text("a job trained it on a set of examples")
