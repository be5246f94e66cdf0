"""How sure a model is, on its page in a real browser."""

import json
import random
from math import log
from typing import Any

import pytest

from service.learning.certainty.anytime import interval_of_share
from tests.e2e.pages import Open, card, expect, fixed, percent, state, tile
from tests.support.service_process import Service

LABELS = ["leaves", "buys"]
RELIABILITY = "Calibration"
OF_INTERVALS = "import('/dashboard/charts/interval.js')"


def rounds(many: int, seed: int = 0) -> list[dict[str, Any]]:
    """Whole rounds whose labels no plane separates."""
    chance = random.Random(seed)
    lines = []
    for _ in range(many):
        x = [round(chance.gauss(0, 1), 3) for _ in range(3)]
        lines.append({"features": x, "label": LABELS[x[0] - x[1] + chance.gauss(0, 0.7) > 0]})
    return lines


def learn(service: Service, name: str, many: int, **settings: Any) -> dict[str, Any]:
    service.create(name, labels=LABELS, **settings)
    service.stream(rounds(many), model=name)
    return service.stats(name)


def open_model(service: Service, name: str, open_page: Open, width: int = 1280) -> Any:
    page = open_page(service, f"#/models/{name}", width)
    expect(state(page)).to_have_text("Live")
    expect(tile(page, "Rounds")).to_have_text(f"{service.stats(name)['rounds']['revealed']:,}")
    return page


def words(page: Any, title: str) -> Any:
    return card(page, title).locator(".words")


# The interval


def test_the_interval_is_said_in_words_and_drawn_as_a_band(
    service: Service, name: str, open_page: Open
) -> None:
    interval = learn(service, name, 300, confidence=0.9)["error_rate_interval"]
    page = open_model(service, name, open_page)
    expect(words(page, "Error over rounds")).to_have_text(
        f"The chance of a mistake, averaged over the rounds so far, is between {percent(interval['low'])} "
        f"and {percent(interval['high'])} with 90% confidence, at any time you look."
    )
    chart = card(page, "Error over rounds").locator(".chart")
    expect(chart.locator(".band .area")).to_be_visible()
    expect(card(page, "Error over rounds").locator(".legend .band")).to_have_text("Confidence band, 90% sure")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".tip")).to_contain_text(
        f"Confidence band, 90% sure{percent(interval['low'])} to {percent(interval['high'])}"
    )


def test_the_band_is_every_interval_that_the_service_told(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=LABELS)
    told = {}
    for start in range(0, 400, 40):
        service.stream(rounds(400)[start : start + 40], model=name)
        stats = service.stats(name)
        told[stats["rounds"]["revealed"]] = stats["error_rate_interval"]
    page = open_model(service, name, open_page)
    drawn = page.evaluate(
        f"async (stats) => (await {OF_INTERVALS}).band(stats.curve, stats.error_rate_interval)", stats
    )
    band = {at: (low, high) for at, low, high in drawn}
    assert len(band) == len(stats["curve"]["rounds"]) - 1  # the curve begins at 0
    for at, interval in told.items():
        assert band[at] == pytest.approx((interval["low"], interval["high"]), abs=1e-9)


def test_the_page_and_the_service_have_the_same_intervals(service: Service, open_page: Open) -> None:
    page = open_page(service)
    for hits, many in ((0, 1), (1, 1), (3, 100), (5_000, 100_000), (10**9, 10**10)):
        for confidence in (0.5, 0.95, 0.9999):
            found = page.evaluate(
                f"async (counts) => (await {OF_INTERVALS}).intervalOfShare(...counts)",
                [hits, many, confidence],
            )
            assert found == pytest.approx(interval_of_share(hits, many, confidence), abs=1e-9)


# Probabilities


def test_probabilities_are_shown_beside_what_came_true(service: Service, name: str, open_page: Open) -> None:
    learn(service, name, 500)
    for _ in range(12):
        service.predict(name, [0.4, -0.2, 0.0])
    stats = service.stats(name)
    calibration, bins = stats["calibration"], stats["calibration"]["bins"]
    page = open_model(service, name, open_page)
    expect(card(page, RELIABILITY).locator(".beside .words").first).to_contain_text(
        f"{calibration['rounds']} labels served with a probability"
    )
    rows = card(page, RELIABILITY).locator(".unseen tbody tr").all_text_contents()
    assert rows == [
        f"{round(100 * each['low'])}% to {round(100 * each['high'])}%{each['rounds']:,}{percent(each['right_rate'])}"
        for each in bins
    ]
    filled = [each for each in bins if each["rounds"]]
    assert card(page, RELIABILITY).locator(".count").all_text_contents() == [
        str(each["rounds"]) for each in filled
    ]
    drawn = page.evaluate(
        """() => [...document.querySelectorAll(".reliability .bin:has(circle)")].map((bin) => {
          const box = bin.querySelector(".target").getBBox();
          const dot = bin.querySelector("circle");
          return {share: (box.y + box.height - dot.cy.baseVal.value) / box.height, size: dot.r.baseVal.value};
        })"""
    )
    for each, dot in zip(filled, drawn, strict=True):
        assert dot["share"] == pytest.approx(10 * (each["right_rate"] - each["low"]), abs=0.02)
    largest = max(range(len(filled)), key=lambda at: int(filled[at]["rounds"]))
    assert drawn[largest]["size"] == max(dot["size"] for dot in drawn)

    right = sum(each["rounds"] * each["right_rate"] for each in filled) / calibration["rounds"]
    losses = card(page, RELIABILITY).locator(".beside td").all_inner_texts()
    assert [float(loss) for loss in losses] == pytest.approx(
        [
            calibration["brier"],
            right * (1 - right),
            calibration["log_loss"],
            -right * log(right) - (1 - right) * log(1 - right),
        ],
        rel=0.01,
    )
    wrong = percent(stats["unlabelled"]["expected_error_rate"], 1)
    expect(words(page, RELIABILITY).last).to_have_text(
        f"12 pending predictions, expected error {wrong} by their probabilities."
    )


def test_a_model_without_reveals_says_what_is_not_known_yet(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=LABELS, coverage=0.9, ask="auto")
    service.predict(name, [1.0])
    page = open_model(service, name, open_page)
    expect(words(page, "Error over rounds")).to_have_text(
        "No rounds yet: the line begins with the first labels."
    )
    expect(words(page, RELIABILITY)).to_have_text(
        [
            "No label that was served with a probability has been revealed yet.",
            "1 pending prediction, served without a probability.",
        ]
    )
    expect(card(page, RELIABILITY).locator("circle")).to_have_count(0)
    expect(words(page, "Sets of labels").first).to_have_text("No set has met its true label yet.")
    expect(words(page, "Labels asked for")).to_have_text(
        [
            "Too few labels to estimate how many predictions are wrong.",
            "No theorem bounds the mistakes to be expected: the theorem is about a b that is given; "
            "with auto it changes with the stream.",
        ]
    )
    expect(card(page, "Settings").locator("div", has_text="ask")).to_have_text("askauto")
    service.learn(name, [1.0], "buys")
    expect(words(page, "Error over rounds")).to_contain_text("Too few rounds to estimate")


# Sets, and labels asked for


def test_sets_and_asking_are_shown_for_models_that_have_them(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=LABELS, coverage=0.8, ask={"b": 0.5}, declared_margin=0.001)
    for at, line in enumerate(rounds(300)):
        served = service.predict(name, line["features"], id=f"{name}-{at}")
        if served["ask"]:
            service.reveal(served["prediction_id"], line["label"])
    stats = service.stats(name)
    sets, ask = stats["sets"], stats["ask"]
    page = open_model(service, name, open_page)
    figures = card(page, "Sets of labels").locator("dd").all_inner_texts()  # drawn with the rounds
    assert figures[:2] == [percent(sets["coverage"]), "80%"] and figures[3] == percent(sets["single_rate"])
    assert float(figures[2]) == pytest.approx(sets["mean_size"], rel=0.01)
    distance = (
        f"at most {fixed(100 * sets['distance_max'], 2)} percentage points from what is wanted, on any stream"
    )
    expect(words(page, "Sets of labels").first).to_contain_text(distance)
    single = percent(sets["single_error_rate"])
    expect(words(page, "Sets of labels").last).to_have_text(f"Of the sets of one label, {single} were wrong.")
    expect(card(page, "Labels asked for").locator("dd")).to_have_text(
        [percent(ask["asked_rate"]), "300", str(ask["asked"]), percent(ask["error_rate"])]
    )
    expect(words(page, "Labels asked for").last).to_have_text(
        "If a plane separates the stream with the declared margin of 0.001, at most "
        f"{expected_in_words(ask['bound']['expected_mistakes'])} mistakes are to be expected, asked for or not."
    )

    plain = f"{name}.plain"
    learn(service, plain, 20)
    page = open_model(service, plain, open_page)
    expect(card(page, RELIABILITY)).to_be_visible()
    expect(page.locator(".sets, .asking")).to_have_count(2)
    for hidden in page.locator(".sets, .asking").all():
        expect(hidden).to_be_hidden()


def expected_in_words(most: float) -> str:
    return f"{int(most):,}" if most < 1e7 else f"{most:.2e}".replace("e+0", "e").replace("e+", "e")


def test_the_estimate_of_the_error_has_its_interval(service: Service, open_page: Open) -> None:
    page = open_page(service)
    ask = {"predictions": 20_000, "error_rate_interval": {"low": 0.02, "high": 0.09, "confidence": 0.95}}
    cards = "import('/dashboard/cards/certainty.js')"
    assert page.evaluate(f"async (ask) => (await {cards}).estimateInWords(ask)", ask) == (
        "By the labels that were asked for, the chance of a mistake over all 20,000 predictions is between 2.00% and "
        "9.00% with 95% confidence."
    )


# Try it


def test_trying_it_tells_probability_set_and_whether_the_label_is_asked_for(
    service: Service, name: str, open_page: Open
) -> None:
    learn(service, name, 200, coverage=0.9, ask={"b": 1.0})
    page = open_model(service, name, open_page)
    with page.expect_response("**/predict") as answered:
        page.get_by_label("Features").fill("0.4, -0.3, 0.1")
        page.get_by_role("button", name="Predict").click()
    made = json.loads(answered.value.text())
    chance = percent(made["ask_probability"], 1)
    expect(page.locator(".answer .words")).to_have_text(
        [
            "By what came of such predictions, that is right with a probability of "
            f"{percent(made['probability'], 1)}.",
            f"Not ruled out: {', '.join(made['set'])}.",
            f"Its label would be asked for with a chance of {chance}.",
        ]
    )


def test_every_kind_of_answer_has_its_words(service: Service, open_page: Open) -> None:
    page = open_page(service)

    def last_words(**served: Any) -> Any:
        return page.evaluate(
            "async (made) => (await import('/dashboard/cards/certainty.js')).certaintyInWords(made).at(-1)",
            {"probability": 0.5, **served},
        )

    assert last_words(probability=None) == "It estimates no probability before its first reveal."
    assert last_words(set=None) == "No label can be ruled out, not even an unseen one."
    assert last_words(set=[]).startswith("Every label is ruled out: a miss that balances")
    assert last_words(set=list(range(14))) == (
        "Not ruled out: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more."
    )
    assert last_words(ask=True, ask_probability=0.25).endswith(
        "asked for, as happens with a chance of 25.0%."
    )
    assert last_words(ask=False, ask_probability=0.25).startswith("Its label need not be revealed")


def test_long_labels_make_no_phone_scroll_sideways(service: Service, name: str, open_page: Open) -> None:
    labels = ["a" * 200, "b" * 200, "c"]
    service.create(name, labels=labels, coverage=0.9, ask={"b": 1.0})
    for at in range(9):
        service.learn(name, [at % 3 * 1.0, 1.0], labels[at % 3])
    page = open_model(service, name, open_page, width=375)
    expect(words(page, "Largest weights")).to_contain_text("speak for")
    page.get_by_label("Features").fill("1, 1")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator(".answer .words").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
