"""The experts of a panel on the page of their model, in a real browser."""

import random
from typing import Any

import pytest

from tests.e2e.pages import Open, card, expect, percent, state, tile
from tests.support.service_process import Service

EXPERTS = "Experts"
OF_EXPERTS = "import('/dashboard/cards/experts.js')"


def learn(service: Service, name: str, many: int) -> dict[str, Any]:
    """A plane for the first half of the rounds, a circle for the others: another expert will lead."""
    service.create(name, learner={"algorithm": "auto"}, labels=["no", "yes"])
    chance = random.Random(3)
    lines = []
    for number in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(4)]
        inside = x[0] - x[1] if number < many / 2 else x[0] ** 2 + x[1] ** 2 - 1.4
        lines.append({"features": x, "label": ["no", "yes"][inside > 0]})
    service.stream(lines, model=name)
    return service.stats(name)


def open_model(service: Service, name: str, open_page: Open, width: int = 1280) -> Any:
    page = open_page(service, f"#/models/{name}", width)
    expect(state(page)).to_have_text("Live")
    expect(tile(page, "Rounds")).to_have_text(f"{service.stats(name)['rounds']['revealed']:,}")
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_the_card_shows_every_expert_and_who_led_over_time(
    service: Service, name: str, open_page: Open, width: int
) -> None:
    experts = learn(service, name, 1200)["experts"]
    page = open_model(service, name, open_page, width)
    shown = card(page, EXPERTS)
    rows = [" ".join(text.split()) for text in shown.locator("tbody tr").all_inner_texts()]
    assert rows == [
        f"{each['name']}{' (leads)' if each['name'] == experts['leader'] else ''} "
        f"{percent(each['weight'], 1)} {each['mistakes']:,}"
        for each in experts["panel"]
    ]
    best = min(experts["panel"], key=lambda each: each["mistakes"])
    expect(shown.locator(".words")).to_contain_text(
        f"than the mistakes of {best['name']}, the best of them with {best['mistakes']:,} mistakes"
    )
    expect(shown.locator(".words")).to_contain_text(f"errs at most {int(experts['mistake_bound']):,} times")
    assert len(set(experts["history"]["leaders"])) > 1, "the stream is made so that the lead changes"
    changes = [
        at
        for at in range(1, len(experts["history"]["leaders"]))
        if experts["history"]["leaders"][at] != experts["history"]["leaders"][at - 1]
    ]
    assert shown.locator(".leaders rect").count() == len(changes) + 1
    expect(shown.locator(".leaders")).to_have_attribute("aria-label", lead_in_words(experts["history"]))
    assert shown.locator(".chart .line").count() == len(experts["panel"])
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def lead_in_words(history: dict[str, Any]) -> str:
    parts: list[list[Any]] = []
    for leader, round_ in zip(history["leaders"], history["rounds"], strict=True):
        if parts and parts[-1][0] == leader:
            parts[-1][1] = round_
        else:
            parts.append([leader, round_])
    return "Leading expert: " + ", ".join(f"{leader} until round {last:,}" for leader, last in parts) + "."


def test_a_model_without_a_panel_has_no_such_card(service: Service, name: str, open_page: Open) -> None:
    service.learn(name, [1.0, 2.0], 1)
    page = open_model(service, name, open_page)
    expect(card(page, "Settings")).to_be_visible()
    expect(page.locator(".card.experts")).to_be_hidden()


def test_a_new_panel_says_that_nothing_is_known_yet(service: Service, name: str, open_page: Open) -> None:
    service.create(name, learner={"algorithm": "auto"})
    page = open_model(service, name, open_page)
    expect(card(page, EXPERTS).locator(".words")).to_have_text(
        "No label has been revealed yet: all experts weigh the same."
    )
    expect(card(page, EXPERTS).locator(".leaders")).to_have_attribute("aria-label", "No expert has led yet.")


def test_the_largest_weights_say_whose_they_are(service: Service, name: str, open_page: Open) -> None:
    leader = learn(service, name, 100)["experts"]["leader"]
    page = open_model(service, name, open_page)
    expect(card(page, "Largest weights").locator(".words")).to_contain_text(
        f"Those of {leader}, the expert that weighs most."
    )


def test_the_error_of_an_expert_is_that_between_two_points(service: Service, open_page: Open) -> None:
    page = open_page(service)
    found = page.evaluate(f"async () => (await {OF_EXPERTS}).errorBetween([4, 8, 12], [2, 2, 5])")
    assert found == [[4, 0.5], [8, 0.0], [12, 0.75]]
