"""Comparing models on the page."""

from tests.e2e.pages import Open, expect, percent, state
from tests.running import Service


def test_models_are_compared_in_one_chart_with_what_their_settings_differ_in(
    service: Service, name: str, open_page: Open
) -> None:
    names = [f"{name}-{kind}" for kind in ("perceptron", "pa1")]
    service.create(names[0], labels=["no", "yes"])
    service.create(names[1], labels=["no", "yes"], learner={"algorithm": "pa1", "C": 0.5})
    for model in names:
        for number in range(80):
            x = [float(number % 7 - 3), float(number % 5 - 2)]
            service.learn(model, x, "yes" if x[0] + x[1] > 0 else "no")
    page = open_page(service, f"#/models/{names[0]}")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare")
    expect(page.get_by_role("status").filter(has_text="Add another model")).to_be_visible()
    page.get_by_label("Add a model").fill(names[1])
    page.keyboard.press("Enter")
    expect(page.locator(".legend li")).to_have_text(names)
    assert page.url.endswith(f"#/compare?models={names[0]}%2C{names[1]}")
    figures = page.get_by_role("table", name="Statistics of each model")
    expect(figures.locator("thead th")).to_have_text(["", *names])
    rates = [percent(service.stats(model)["error_rate"]) for model in names]
    expect(figures.get_by_role("row", name="Error rate", exact=False).first).to_contain_text(rates[1])
    differs = page.get_by_role("table", name="Settings that differ")
    expect(differs.get_by_role("row", name="learner.algorithm")).to_contain_text("perceptron")
    expect(differs.get_by_role("row", name="learner.algorithm")).to_contain_text("pa1")
    expect(differs.get_by_role("row", name="labels")).to_have_count(0)
    expect(page.locator(".series .line")).to_have_count(2)
    service.learn(names[0], [1.0, 1.0], "yes")
    expect(figures.get_by_role("row", name="Rounds", exact=False).first).to_contain_text("81")
    expect(state(page)).to_have_text("Live")

    chart, head = (page.locator(each).bounding_box() for each in (".compare > .card >> nth=0", ".page-head"))
    assert chart["y"] >= head["y"] + head["height"] and chart["width"] == head["width"], (
        "they stand below each other"
    )
    page.reload()
    expect(page.locator(".legend li")).to_have_text(names)
    page.get_by_role("button", name=f"Leave out {names[0]}").click()
    expect(page.locator(".legend li")).to_have_text(names[1:])
    page.go_back()
    expect(page.locator(".legend li")).to_have_text(names)
    page.get_by_role("link", name="All models").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")


def test_a_model_that_is_not_there_is_named_beside_the_others(
    service: Service, name: str, open_page: Open
) -> None:
    service.learn(name, [1.0], 1)
    page = open_page(service, f"#/compare?models={name},{name}.none", width=375)
    expect(page.get_by_role("alert")).to_have_text(f"There is no model {name}.none.")
    expect(page.locator(".compare-names li")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert all("404" in said for said in page.complaints)
    page.complaints.clear()
