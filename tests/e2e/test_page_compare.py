"""Comparing models on the page."""

from tests.e2e.pages import Open, card, expect, percent, state
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
    figures = page.get_by_role("table", name="Statistics of each")
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


def test_challengers_are_compared_with_their_champion_and_with_other_models(
    service: Service, name: str, open_page: Open
) -> None:
    other = f"{name}-other"
    service.create(name, challengers={"arow": {"learner": {"algorithm": "arow"}}, "same": {}})
    for model in (name, other):
        lines = [{"features": [float(i % 7 - 3), 1.0], "label": 1 if i % 7 > 2 else -1} for i in range(60)]
        service.stream(lines, model=model)
    page = open_page(service, f"#/models/{name}")
    card(page, "Challengers").get_by_role("link", name="Compare them").click()
    expect(page.locator(".compare-names a")).to_have_text([name, f"{name}/arow", f"{name}/same"])
    expect(page.locator(".legend li")).to_have_text([name])
    words = page.get_by_text(f"No line for {name}/arow, {name}/same")
    expect(words).to_contain_text("of a challenger no curve is kept")
    page.get_by_role("button", name=f"Leave out {name}/same").click()
    page.get_by_label("Add a model or model/challenger").fill(f"{name}/")
    expect(page.locator(f'#compare-offers option[value="{name}/same"]')).to_be_attached()
    page.get_by_label("Add a model or model/challenger").fill(other)
    page.keyboard.press("Enter")
    assert page.url.endswith(f"?models={name}%2C{name}%2Farow%2C{other}")
    figures = page.get_by_role("table", name="Statistics of each")
    expect(figures.locator("thead th")).to_have_text(["", name, f"{name}/arow", other])
    arow = service.stats(name)["challengers"]["line"][0]
    rates = [service.stats(name)["error_rate"], arow["error_rate"], service.stats(other)["error_rate"]]
    cells = figures.get_by_role("row", name="Error rate", exact=False).first.locator("td")
    expect(cells).to_have_text([percent(rate) for rate in rates])
    won = figures.get_by_role("row", name="Won : lost").locator("td")
    expect(won).to_have_text(["–", f"{arow['won']} : {arow['lost']}", "–"])
    differs = page.get_by_role("table", name="Settings that differ")
    algorithms = differs.get_by_role("row", name="learner.algorithm").locator("td")
    expect(algorithms).to_have_text(["perceptron", "arow", "perceptron"])
    expect(differs.get_by_role("row", name="challengers", exact=False)).to_have_count(0)
    service.post(f"/models/{name}/promote", {"challenger": "arow"})
    page.goto("about:blank")
    page.goto(f"{service.url}/#/compare?models={name}/arow,{name}/original,{name}/nobody")
    expect(page.get_by_role("alert")).to_have_text(f"{name} has no challenger nobody.")
    expect(figures.locator("thead th")).to_have_text(["", f"{name}/arow", f"{name}/original"])
    expect(page.locator(".compare .chart")).to_be_hidden()


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
