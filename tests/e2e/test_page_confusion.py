"""The heads of the confusion matrix: whatever the labels are, they can be told apart."""

import pytest

from tests.e2e.pages import Open, card, expect
from tests.support.service_process import Service

LONG = "a-label-that-somebody-has-made-very-long"
LABELS = {
    "numbered": [f"class-number-{at}" for at in range(10)],
    "different at the end": [f"{LONG}-{LONG}-{at}" for at in range(10)],
    "different in the middle": [f"{LONG}-{at}-{LONG}" for at in range(10)],
    "of two families": [f"{LONG}-{'ab'[at % 2]}-{LONG}-{at // 2}-{LONG}" for at in range(10)],
    "wide": [f"{'W' * 40}{at}" for at in range(10)],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("width", [1440, 375])
def test_no_two_heads_read_the_same_and_each_has_its_whole_label(
    service: Service, name: str, open_page: Open, width: int, labels: list[str]
) -> None:
    service.create(name, labels=labels)
    for number in range(20):
        service.learn(name, [float(number % 10 == at) for at in range(10)], labels[number % 10])
    page = open_page(service, f"#/models/{name}", width=width)
    confusion = card(page, "Confusion")
    expect(confusion.locator(".cell")).to_have_count(100)
    for heads in (".heat thead th", ".heat tbody th", "table:not(.heat) tbody th"):
        shown = confusion.locator(f"{heads} .label").all_inner_texts()
        assert len(set(shown)) == 10, (heads, shown)
        cut = "(all) => all.some((e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)"
        assert not confusion.locator(f"{heads} .label").evaluate_all(cut), f"{heads} are cut: {shown}"
        told = confusion.locator(heads).evaluate_all("(all) => all.map((e) => e.title)")
        assert sorted(told) == sorted(labels)
    first = confusion.locator(".heat tbody th").first
    expect(first).to_have_accessible_name(first.get_attribute("title"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"


def test_the_commonest_mistakes_name_labels_that_can_be_told_apart(
    service: Service, name: str, open_page: Open
) -> None:
    labels = [f"{LONG}-{at}-{LONG}" for at in range(60)]
    service.create(name, labels=labels, multiclass="multiclass")
    for at in range(60):
        service.learn(name, [float(at % 7), 1.0], labels[(at * 7) % 60])
    page = open_page(service, f"#/models/{name}")
    rows = card(page, "Confusion").locator("table", has_text="The most common mistakes").locator("tbody tr")
    told = service.stats(name)["confusion"]["largest"]
    expect(rows).to_have_count(len(told))
    for at, column in enumerate(("true", "served")):
        shown = rows.locator(f":nth-child({at + 1}) .label").all_inner_texts()
        assert len(set(shown)) == len({each[column] for each in told}), shown
