"""Comparing models on the page."""

from typing import Any

from tests.e2e.pages import Open, card, expect, percent, state, to_end_in
from tests.support.service_process import Service


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
    to_end_in(page, f"#/compare?models={names[0]}%2C{names[1]}")
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
    expect(page.locator(".legend li")).to_have_text([name, f"{name}/arow", f"{name}/same"])
    expect(page.locator(".series .line")).to_have_count(3)
    expect(page.get_by_text("A challenger's line and figures are about the rounds since")).to_be_visible()
    page.get_by_role("button", name=f"Leave out {name}/same").click()
    page.get_by_label("Add a model or model/challenger").fill(f"{name}/")
    expect(page.locator(f'#compare-offers option[value="{name}/same"]')).to_be_attached()
    page.get_by_label("Add a model or model/challenger").fill(other)
    page.keyboard.press("Enter")
    to_end_in(page, f"?models={name}%2C{name}%2Farow%2C{other}")
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
    expect(page.locator(".legend li")).to_have_text([f"{name}/arow", f"{name}/original"])


def test_a_challenger_s_line_begins_where_it_entered_and_stays_its_own_when_it_is_promoted(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name)
    lines = [{"features": [float(i % 7 - 3), 1.0], "label": 1 if i % 11 > 4 else -1} for i in range(300)]
    service.stream(lines, model=name)
    service.post(f"/models/{name}/challengers", {"name": "late", "learner": {"algorithm": "arow"}})
    service.stream(lines[:20], model=name)
    page = open_page(service, f"#/compare?models={name},{name}/late,{name}/original", width=375)
    expect(page.locator(".legend li")).to_have_text([name])
    expect(page.locator(".compare .words")).to_contain_text(
        f"No line yet for {name}/late, {name}/original: one tells the error over 50 rounds."
    )
    service.stream(lines[20:100], model=name)
    names = [name, f"{name}/late", f"{name}/original"]
    expect(page.locator(".legend li")).to_have_text(names)
    expect(page.locator(".compare .words")).not_to_contain_text("No line")
    page.reload()  # what is read now is of after the stream, not of its midst
    expect(page.locator(".legend li")).to_have_text(names)
    model, late, original = (ends(page, at) for at in range(3))
    assert model[1] == late[1] == original[1] and late[0] == original[0]
    share = (late[0] - model[0]) / (
        model[1] - model[0]
    )  # the first value is of rounds 1 to 50, and 301 to 350
    assert abs(share - 300 / 350) < 0.01

    chart = page.locator(".compare .chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    curve = service.get(f"/stats/{name}?fields=learner_curves")["learner_curves"][1]["mistakes"]
    expect(page.locator(".tip")).to_contain_text(f"{name}/late{percent((curve[100] - curve[50]) / 50)}")
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip span.key")).to_have_text([name])  # there the others have no line
    assert page.evaluate("document.documentElement.scrollWidth") <= 375

    service.post(f"/models/{name}/promote", {"challenger": "late"})
    service.learn(name, [1.0, 1.0], 1)
    figures = page.get_by_role("table", name="Statistics of each")
    expect(figures.get_by_role("row", name="Rounds", exact=False).first).to_contain_text("401")  # it is quiet
    expect(figures.get_by_role("row", name="Won : lost").locator("td").nth(1)).to_have_text("–")
    expect(page.locator(".legend li")).to_have_text(names)
    (first, last), demoted = ends(page, 1), ends(page, 2)
    assert first == demoted[0] > 0.8 * last and last == demoted[1]


def test_after_a_promotion_each_column_says_whose_rounds_it_is_about(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, challengers={"arow": {"learner": {"algorithm": "arow"}}})
    lines = [{"features": [float(i % 7 - 3), 1.0], "label": 1 if i % 11 > 4 else -1} for i in range(300)]
    service.stream(lines, model=name)
    service.post(f"/models/{name}/promote", {"challenger": "arow"})
    service.stream(lines[:100], model=name)
    page = open_page(service, f"#/models/{name}")
    card(page, "Challengers").get_by_role("link", name="Compare them").click()
    names = [name, f"{name}/arow", f"{name}/original"]
    expect(page.locator(".compare-names a")).to_have_text(names)
    figures = page.get_by_role("table", name="Statistics of each")

    def cells(row: str) -> Any:
        return figures.get_by_role("row", name=row, exact=False).first.locator("td")

    served, serving = "what was served, by arow since round 300", "this learner, serving since round 300"
    expect(cells("About")).to_have_text([served, serving, "this learner, beside arow"])
    expect(cells("Algorithm")).to_have_text(["arow since round 300", "arow", "perceptron"])
    expect(cells("Beside its champion for")).to_have_text(["–", "–", "100 rounds"])
    stats = service.stats(name)
    arow, original = stats["challengers"]["champion"], stats["challengers"]["line"][0]
    rates = [percent(each["error_rate"]) for each in (stats, arow, original)]
    expect(cells("Error rate")).to_have_text(rates)
    assert rates[0] != rates[1], "what was served is not what the champion would have"

    # Up to the promotion the original is what was served, then the challenger: all lines are seen.
    expect(page.locator(".compare .words")).to_contain_text(
        "Where lines are the same, the upper one is dashed."
    )
    dashes = [
        page.locator(f".series.expert-{at} .line").evaluate("(e) => getComputedStyle(e).strokeDasharray")
        for at in range(3)
    ]
    assert dashes[0] == "none" and "none" not in dashes[1:]
    page.get_by_role("button", name=f"Leave out {name}/arow").click()
    page.get_by_label("Add a model or model/challenger").fill(f"{name}/")
    expect(page.locator(f'#compare-offers option[value="{name}/arow"]')).to_be_attached()


def test_a_model_with_few_rounds_has_a_line_beside_one_with_many(
    service: Service, name: str, open_page: Open
) -> None:
    few = f"{name}-few"
    lines = [{"features": [float(i % 7 - 3), 1.0], "label": 1 if i % 11 > 4 else -1} for i in range(11_000)]
    service.stream(lines, model=name)
    service.stream(lines[:302], model=few)
    page = open_page(service, f"#/compare?models={name},{few}")
    expect(page.locator(".legend li")).to_have_text([name, few])
    expect(page.locator(".compare .words")).to_contain_text(
        f"The error of {few} is over 50 rounds, that of others over 500."
    )


def test_long_settings_wrap_and_what_goes_on_at_an_edge_fades_there(
    service: Service, name: str, open_page: Open
) -> None:
    names = [f"{name}-{at}" for at in range(8)]
    for at, model in enumerate(names):
        labels = [f"class-number-{at}-{each}" for each in range(60 if at == 7 else 10)]
        service.create(model, labels=labels, learner={"algorithm": "perceptron", "eta0": 100_000 + at})
        service.learn(model, [1.0], labels[0])
    page = open_page(service, f"#/compare?models={','.join(names)}", width=1440)
    differs = page.get_by_role("table", name="Settings that differ")
    expect(differs.get_by_role("row", name="learner.eta0").locator("td")).to_have_text(
        [f"{100_000 + at:,}" for at in range(8)]
    )
    many = differs.get_by_role("row", name="labels").locator("td").last
    assert "class-number-7-59" in many.get_attribute("title") and many.inner_text().endswith("…")
    areas = page.locator(".compare .scroll")
    beyond = "(all) => all.map((e) => e.scrollWidth - e.clientWidth)"
    assert areas.evaluate_all(beyond) == [0, 0], "eight fit beside each other"
    expect(page.locator(".compare .scroll.more-right")).to_have_count(0)

    page.set_viewport_size({"width": 375, "height": 900})
    expect(page.locator(".compare .scroll.more-right")).to_have_count(2)
    assert areas.first.evaluate("(e) => getComputedStyle(e).maskImage") != "none"
    areas.first.evaluate("(e) => e.scrollTo(e.scrollWidth, 0)")
    expect(page.locator(".compare .scroll.more-left:not(.more-right)")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def ends(page: Any, at: int) -> tuple[float, float]:
    """Where a line begins and ends, in pixels from the left."""
    drawn = page.locator(f".compare .series.expert-{at} .line").get_attribute("d")
    numbers = [float(point.split(" ")[0]) for point in drawn.removeprefix("M").split("L")]
    return numbers[0], numbers[-1]


def test_a_model_that_is_not_there_is_named_beside_the_others(
    service: Service, name: str, open_page: Open
) -> None:
    service.learn(name, [1.0], 1)
    page = open_page(service, f"#/compare?models={name},{name}.none", width=375)
    expect(page.get_by_role("alert")).to_have_text(f"There is no model {name}.none.")
    expect(page.locator(".compare-names li")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.complaints.expect("404")
