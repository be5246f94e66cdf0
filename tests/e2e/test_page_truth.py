"""Whether the page's pictures say what is so: axes, matrices; and whether everybody can read it, by axe-core."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.demo_fleet import make_demo_fleet
from tests.e2e.pages import Open, card, expect, state
from tests.support.missing_programs import missing
from tests.support.service_process import Service

SEVERE = ("serious", "critical")

PAGES = {
    "#/": ".sparkline path",
    "#/?search=nobody": ".none",
    "#/models/spam-filter": ".trail tbody tr",
    "#/models/spam-filter/labels": ".inbox-features dd",
    "#/models/contest/labels": ".inbox-none",
    "#/models/dozens": ".heat.dense .cell",
    "#/models/many": ".confusion tbody tr",
    "#/models/auto": ".experts .series",
    "#/models/contest": ".challengers tbody tr",
    "#/new": ".new-parameter",
    "#/compare?models=spam-filter,intent": ".series .line",
}
"""Addresses, each with what is there when the page is complete."""


# Axes


def test_every_tick_is_at_the_value_that_its_label_says(service: Service, open_page: Open) -> None:
    page = open_page(service)
    wrong = page.evaluate(
        """async () => {
            const { stepOf, ticks } = await import('/dashboard/charts/chart.js');
            const { percentTick, shortCount } = await import('/dashboard/lib/format.js');
            const units = { K: 1e3, M: 1e6, B: 1e9 };
            const read = (text) => parseFloat(text) * (text.endsWith('%') ? 0.01 : units[text.at(-1)] ?? 1);
            const wrong = [];
            const look = (most, about, least, text) => {
                const step = stepOf(most, about, least);
                for (const value of ticks(most, step))
                    if (Math.abs(read(text(value, step)) - value) > 1e-9 * Math.max(1, value))
                        wrong.push([most, about, value, text(value, step)]);
            };
            for (let i = 0; i < 400; i += 1)
                for (const about of [2, 4, 5, 8, 11]) {
                    look(0.002 * 1.016 ** i, about, 0, percentTick);
                    look(Math.ceil(1.06 ** i), about, 1, shortCount);
                }
            return wrong;
        }"""
    )
    assert wrong == []


def test_the_axes_of_a_model_without_rounds_make_sense(service: Service, name: str, open_page: Open) -> None:
    service.create(name)
    page = open_page(service, f"#/models/{name}")
    texts = card(page, "Error over rounds").locator(".axes text")
    expect(texts.last).to_have_text("10")
    said = texts.all_text_contents()
    assert "0%" in said and "100%" in said and len(said) == len(set(said)), said
    bound = card(page, "Mistakes against the bound")
    expect(bound.locator(".words")).to_contain_text("No rounds yet.")
    counts = bound.locator(".axes text").all_text_contents()
    assert all(text.isdigit() for text in counts), counts


# The confusion matrix


@pytest.mark.parametrize("width", [1440, 1024])
def test_ten_classes_are_not_clipped(service: Service, name: str, open_page: Open, width: int) -> None:
    labels = [f"category {at}" for at in range(10)]
    service.create(name, labels=labels)
    for number in range(40):
        service.learn(name, [float(number % 10 == at) for at in range(10)], labels[number % 10])
    page = open_page(service, f"#/models/{name}", width=width)
    expect(card(page, "Confusion").locator(".cell")).to_have_count(100)
    for scroll in card(page, "Confusion").locator(".scroll").all():
        clipped = scroll.evaluate("(e) => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]")
        assert max(clipped) <= 0, clipped


def test_the_worst_of_several_classes_come_first(service: Service, name: str, open_page: Open) -> None:
    labels = ["good", "fair", "bad", "worst", "unseen"]
    service.create(name, labels=labels, bias=False)
    for number in range(40):
        at = number % 4
        service.learn(name, [float(at == place) for place in range(5)], labels[at])
    for number in range(8):  # these look like others
        service.learn(name, [1.0, 0.0, 0.0, 0.0, 0.0], "worst" if number % 3 else "bad")
    page = open_page(service, f"#/models/{name}")
    figures = service.stats(name)["classes"]
    wanted = sorted(figures, key=lambda each: each["f1"] if each["support"] else 2)
    assert wanted[0]["label"] != "good"
    heads = card(page, "Confusion").get_by_role("table").nth(1).locator("tbody th")
    expect(heads).to_have_text([each["label"] for each in wanted])
    rows = card(page, "Confusion").locator(".heat tbody th")
    expect(rows).to_have_text([each["label"] for each in wanted])
    for place, each in enumerate(wanted):
        row = card(page, "Confusion").locator(".heat tbody tr").nth(place).locator(".cell")
        assert sum(int(text) for text in row.all_inner_texts()) == each["support"]


def test_every_class_and_every_confusion_that_is_told_can_be_reached(
    service: Service, name: str, open_page: Open
) -> None:
    labels = [f"label {at}" for at in range(60)]
    service.create(name, labels=labels, multiclass="multiclass")
    for at in range(60):
        service.learn(name, [float(at % 7), 1.0], labels[(at * 7) % 60])
    told = service.stats(name)["confusion"]["largest"]
    assert len(told) > 20
    page = open_page(service, f"#/models/{name}")
    rows = card(page, "Confusion").locator("table", has_text="The most common mistakes").locator("tbody tr")
    expect(rows).to_have_count(len(told))
    page.get_by_role("button", name="Show all 60 classes").click()
    expect(card(page, "Confusion").get_by_role("table").nth(1).locator("tbody tr")).to_have_count(60)


# For everybody


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with all kinds of models."""
    service = Service(tmp_path_factory.mktemp("fleet") / "data", durability="process").start()
    make_demo_fleet(service, 260)
    service.create("auto", learner={"algorithm": "auto"}, ask={"b": 1.0}, labels=["no", "yes"])
    service.create("contest", challengers={"second": {"learner": {"algorithm": "pa1"}}})
    service.create("many", labels=[f"label {at}" for at in range(60)], multiclass="multiclass")
    service.create("dozens", labels=[f"label {at}" for at in range(14)])
    for number in range(60):
        x = [float(number % 7 - 3), float(number % 5 - 2)]
        service.learn("auto", x, "yes" if number % 7 > 3 else "no")
        service.learn("contest", x, 1 if number % 7 > 3 else -1)
        service.learn("many", x, f"label {number}")
        service.learn("dozens", x, f"label {number % 14}")
    yield service
    service.close()


@pytest.fixture(scope="module")
def axe() -> str:
    try:
        import axe_playwright_python
    except ImportError:
        missing("the page is looked at with axe-core: pip install axe-playwright-python")
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def severe(page: Any, rules: dict[str, Any]) -> list[str]:
    found = page.evaluate("(rules) => axe.run(document, { resultTypes: ['violations'], ...rules })", rules)
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in SEVERE
        for node in each["nodes"]
    ]


def test_axe_finds_nothing_serious_on_any_page(fleet: Service, open_page: Open, axe: str) -> None:
    page = open_page(fleet, bypass_csp=True)
    page.evaluate(axe)
    found = []
    for address, ready in PAGES.items():
        page.goto(f"{fleet.url}/{address}")
        expect(state(page)).to_have_text("Live")
        expect(page.locator(ready).first).to_be_attached()
        page.emulate_media(color_scheme="light")
        found += [f"{address} {complaint}" for complaint in severe(page, {})]
        page.emulate_media(color_scheme="dark")
        found += [
            f"{address}, dark: {complaint}" for complaint in severe(page, {"runOnly": ["color-contrast"]})
        ]
    assert not found, "\n".join(found)


CONTRAST = """(state) => {
    const badge = document.querySelector(".badge");
    [badge.dataset.state, badge.textContent] = [state, state];
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const paint = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
    };
    const light = () => {
        const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    paint(getComputedStyle(document.documentElement).backgroundColor);
    paint(getComputedStyle(badge).backgroundColor);
    const behind = light();
    paint(getComputedStyle(badge).color);
    const [dark, bright] = [light(), behind].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
}"""
"""How much the text of a badge stands out from what is behind it, as WCAG defines it; axe passes mixed colours over."""


def test_every_badge_stands_out(service: Service, name: str, open_page: Open) -> None:
    service.learn(name, [1.0], 1)
    page = open_page(service, f"#/models/{name}")
    expect(page.locator(".badge")).to_be_attached()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for drift in ("warning", "drift"):
            assert page.evaluate(CONTRAST, drift) >= 4.5, (scheme, drift)
