"""The leaderboard of a model with challengers on its page, in a real browser."""

import random
from typing import Any

import pytest

from tests.e2e.pages import Open, card, expect, percent, state
from tests.support.service_process import Service

CHALLENGERS = "Challengers"


def learn(service: Service, name: str, many: int, **settings: Any) -> dict[str, Any]:
    service.create(name, **settings)
    chance = random.Random(3)
    lines = []
    for _ in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(4)]
        lines.append({"features": x, "label": 1 if sum(x) + chance.gauss(0, 1) > 0 else -1})
    service.stream(lines, model=name)
    return service.stats(name)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_card_compares_challengers_with_the_champion_and_promotes_one(
    service: Service, name: str, open_page: Open, width: int
) -> None:
    two = {"arow": {"learner": {"algorithm": "arow"}}, "same": {}}
    stats = learn(service, name, 600, challengers=two)["challengers"]
    page = open_page(service, f"#/models/{name}", width)
    expect(state(page)).to_have_text("Live")
    shown = card(page, CHALLENGERS)
    rows = shown.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0).locator("th")).to_have_text("original (serves)")
    arow = stats["line"][0]
    cells = rows.nth(1).locator("td").all_inner_texts()
    assert cells[0] == "arow" and cells[2].startswith(percent(arow["error_rate"]))
    assert cells[4] == f"{arow['won']:,} : {arow['lost']:,}" and cells[6] == percent(arow["confidence"])
    expect(shown).to_contain_text("arow is better than original with a confidence of")
    expect(shown).to_contain_text("No challenger is promoted automatically.")
    shown.get_by_role("button", name="Promote arow").click()
    expect(rows.nth(0).locator("th")).to_have_text("arow (serves)")
    expect(rows.nth(1).locator("th")).to_have_text("original")
    assert service.stats(name)["challengers"]["champion"]["name"] == "arow"
    expect(card(page, "Audit trail")).to_contain_text("arow serves in place of original")
    expect(card(page, "Settings")).to_contain_text("championarow")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"


def test_a_difference_below_zero_has_a_minus_and_no_confidence_is_said_in_words(
    service: Service, name: str, open_page: Open
) -> None:
    stats = learn(service, name, 200, learner={"algorithm": "arow"}, challengers={"plain": {}})["challengers"]
    plain = stats["line"][0]
    assert plain["difference_interval"]["low"] < 0 and plain["confidence"] == 0
    page = open_page(service, f"#/models/{name}", width=375)
    cells = card(page, CHALLENGERS).locator("tbody tr").nth(1).locator("td")
    expect(cells.nth(3)).to_contain_text(f"({percent(plain['difference_interval']['low'])} to ")
    expect(cells.nth(3)).to_contain_text("(−")
    expect(cells.nth(6)).to_have_text("none yet")
    expect(card(page, CHALLENGERS).locator(".scroll")).to_have_class("scroll more-right")


def test_models_without_challengers_have_no_such_card(service: Service, name: str, open_page: Open) -> None:
    learn(service, name, 20)
    page = open_page(service, f"#/models/{name}")
    expect(state(page)).to_have_text("Live")
    expect(page.get_by_role("heading", name=CHALLENGERS)).to_be_hidden()
