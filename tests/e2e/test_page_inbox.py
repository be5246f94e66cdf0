"""The labels inbox of the page, in a real browser."""

from typing import Any

import pytest

from tests.e2e.pages import Open, expect, state, to_end_in
from tests.support.service_process import Service
from tests.support.waiting import eventually


def made_with_four_waiting(service: Service, name: str) -> None:
    """Four predictions, of which the second is the least sure."""
    service.create(name, labels=["ham", "spam"])
    for number in range(8):
        service.learn(name, [float(number % 2 * 2 - 1), 0.5], "spam" if number % 2 else "ham")
    for number, x in enumerate((1.0, 0.02, -1.0, 2.0)):
        service.predict(name, [x, 0.0], id=f"{name}-{number}")


def opened(service: Service, name: str, open_page: Open, query: str = "", **options: Any) -> Any:
    page = open_page(service, f"#/models/{name}/labels{query}", **options)
    expect(state(page)).to_have_text("Live")
    return page


def features(page: Any) -> Any:
    return page.locator(".inbox-features dd").first


def undo(page: Any) -> Any:
    return page.get_by_role("button", name="Undo")


def places(page: Any) -> dict[str, tuple[float, float]]:
    """Where each label's button is, with its key."""
    buttons = page.get_by_role("group", name="True label").locator("button[title]")
    return {
        button.inner_text(): (button.bounding_box()["x"], button.bounding_box()["y"])
        for button in buttons.all()
    }


@pytest.mark.smoke
def test_a_key_or_a_click_reveals_the_label_and_the_next_one_comes(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = open_page(service, f"#/models/{name}")
    page.get_by_role("link", name="Label predictions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Labels")
    expect(page.locator(".inbox .about")).to_have_text("4 predictions are pending.")
    expect(page.locator(".inbox-served")).to_contain_text("The model said spam")
    expect(features(page)).to_have_text("2")
    page.keyboard.press("2")
    expect(page.locator(".inbox-said")).to_have_text("spam: as it was served. 1 label by you.")
    expect(features(page)).to_have_text("-1")
    page.get_by_role("button", name="spam").click()
    expect(page.locator(".inbox-said")).to_have_text("spam: ham was served, a mistake. 2 labels by you.")
    expect(features(page)).to_have_text("0.02")
    page.keyboard.press("s")
    expect(features(page)).to_have_text("1")
    page.keyboard.press("s")
    expect(page.locator(".inbox-none")).to_contain_text("2 predictions were skipped")
    page.get_by_role("button", name="Look at them again").click()
    expect(features(page)).to_have_text("0.02")
    assert service.stats(name)["rounds"] == {"predicted": 12, "revealed": 10, "pending": 2, "expired": 0}
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_the_least_sure_come_first_if_so_wished_and_the_link_says_so(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    page.get_by_label("Order").select_option("Least certain first")
    expect(features(page)).to_have_text("0.02")
    to_end_in(page, "/labels?order=least_sure")
    page.reload()
    expect(features(page)).to_have_text("0.02")


def test_a_discarded_prediction_is_voided_when_the_time_for_undo_is_over(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    page.clock.install()
    expect(features(page)).to_have_text("2")
    page.get_by_role("button", name="Discard").click()
    expect(page.locator(".inbox-bar")).to_contain_text("Discarded. Undo")
    expect(page.locator(".inbox .about")).to_have_text("3 predictions are pending.")
    expect(features(page)).to_have_text("-1")
    assert service.stats(name)["rounds"]["pending"] == 4
    page.clock.fast_forward(20_000)
    expect(undo(page)).to_be_hidden()
    eventually(lambda: service.stats(name)["rounds"]["pending"] == 3)
    assert service.stats(name)["corrections"]["voided"] == 1
    expect(page.get_by_role("button", name="Previous")).to_be_hidden()


def test_a_discard_that_is_refused_brings_the_prediction_back(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    page.clock.install()
    page.route("**/predictions/*", lambda route: route.fulfill(status=503, json={"detail": "no room"}))
    expect(features(page)).to_have_text("2")
    for shown in ("-1", "0.02", "1"):
        page.keyboard.press("v" if shown == "-1" else "s")
        expect(features(page)).to_have_text(shown)
    page.clock.fast_forward(20_000)
    expect(page.locator(".inbox-said")).to_have_text("no room")
    page.keyboard.press("s")
    expect(features(page)).to_have_text("2")
    assert service.stats(name)["rounds"]["pending"] == 4
    page.complaints.expect("503")


def test_a_discarded_prediction_can_be_brought_back(service: Service, name: str, open_page: Open) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    page.keyboard.press("v")
    expect(features(page)).to_have_text("-1")
    undo(page).click()
    expect(features(page)).to_have_text("2")
    expect(page.locator(".inbox .about")).to_have_text("4 predictions are pending.")
    page.keyboard.press("v")
    page.keyboard.press("v")
    expect(features(page)).to_have_text("0.02")
    page.keyboard.press("p")
    page.keyboard.press("p")
    expect(features(page)).to_have_text("2")
    page.keyboard.press("2")
    expect(page.locator(".inbox-said")).to_have_text("spam: as it was served. 1 label by you.")
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert service.stats(name)["rounds"] == {"predicted": 12, "revealed": 9, "pending": 3, "expired": 0}


@pytest.mark.parametrize("how", ["by a link", "closed"])
def test_leaving_the_inbox_sends_what_was_discarded(
    service: Service, name: str, open_page: Open, how: str
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    page.keyboard.press("v")
    page.keyboard.press("v")
    expect(features(page)).to_have_text("0.02")
    if how == "by a link":
        page.get_by_role("link", name=name).click()
    else:
        page.goto("about:blank")
    eventually(lambda: service.stats(name)["rounds"]["pending"] == 2)


def test_what_is_labelled_elsewhere_while_undo_is_offered_keeps_that_label(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    page.keyboard.press("v")
    expect(features(page)).to_have_text("-1")
    service.reveal(f"{name}-3", "ham")
    expect(page.get_by_role("button", name="Previous")).to_be_hidden()
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert service.stats(name)["rounds"] == {"predicted": 12, "revealed": 9, "pending": 3, "expired": 0}
    assert not service.stats(name)["corrections"]


def test_a_label_is_undone_by_another_one_or_by_discarding(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    page.keyboard.press("1")
    expect(page.locator(".inbox-said")).to_have_text("ham: spam was served, a mistake. 1 label by you.")
    undo(page).click()
    expect(features(page)).to_have_text("2")
    given = page.locator(".inbox-given")
    expect(given).to_have_text("You labelled it ham. Another label corrects it; Skip keeps it.")
    page.keyboard.press("2")
    expect(page.locator(".inbox-said")).to_have_text("Corrected: spam instead of ham.")
    expect(given).to_be_hidden()
    eventually(lambda: service.stats(name)["corrections"]["in_force"] == 1)
    expect(features(page)).to_have_text("-1")
    page.keyboard.press("Enter")
    expect(features(page)).to_have_text("0.02")
    for shown in ("-1", "2"):
        page.keyboard.press("p")
        expect(features(page)).to_have_text(shown)
    expect(given).to_contain_text("You labelled it spam.")
    page.keyboard.press("s")  # it keeps its label, and is not one that waits
    expect(features(page)).to_have_text("-1")
    page.keyboard.press("v")
    expect(features(page)).to_have_text("0.02")
    for _ in range(2):
        page.keyboard.press("s")
    expect(page.locator(".inbox-none")).to_contain_text("2 predictions were skipped")
    page.get_by_role("link", name=name).click()
    eventually(lambda: service.stats(name)["corrections"]["in_force"] == 2)
    service.assert_replay_equals_live(name)


def test_what_was_skipped_is_gone_back_to_one_by_one(service: Service, name: str, open_page: Open) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    previous = page.get_by_role("button", name="Previous")
    expect(previous).to_be_hidden()
    for shown in ("-1", "0.02", "1"):
        page.keyboard.press("s")
        expect(features(page)).to_have_text(shown)
    previous.click()
    expect(features(page)).to_have_text("0.02")
    page.keyboard.press("p")
    expect(features(page)).to_have_text("-1")
    page.keyboard.press("v")
    expect(page.locator(".inbox-said")).to_have_text("Discarded.")
    expect(features(page)).to_have_text("0.02")
    for _ in range(2):
        page.keyboard.press("s")
    expect(page.locator(".inbox-none")).to_contain_text("3 predictions were skipped")
    page.keyboard.press("p")
    expect(features(page)).to_have_text("1")


def test_a_key_that_was_meant_for_what_somebody_else_has_labelled_labels_nothing(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    service.reveal(f"{name}-3", "ham")
    gone = page.locator(".inbox-gone")
    expect(gone).to_be_visible()
    expect(gone).to_contain_text("Labelled elsewhere, or expired.")
    expect(features(page)).to_have_text("2")
    page.keyboard.press("2")
    expect(features(page)).to_have_text("-1")
    expect(gone).to_be_hidden()
    service.reveal(f"{name}-2", "ham")
    expect(gone).to_be_visible()
    page.get_by_role("button", name="spam").click(force=True)  # it is told to be disabled
    expect(features(page)).to_have_text("0.02")
    assert service.stats(name)["rounds"] == {"predicted": 12, "revealed": 10, "pending": 2, "expired": 0}
    for number in range(2):
        service.reveal(f"{name}-{number}", "ham")
    expect(gone).to_be_visible()
    gone.get_by_role("button", name="Next").click()
    expect(page.locator(".inbox-none")).to_contain_text("No pending predictions.")
    service.predict(name, [7.0, 0.0])
    expect(features(page)).to_have_text("7")


def test_a_label_half_typed_for_what_is_gone_is_not_that_of_the_next(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=None)
    service.learn(name, [1.0], "ham")
    for number in range(2):
        service.predict(name, [float(number)], id=f"{name}-{number}")
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("1")
    page.get_by_label("Find a label").fill("spa")
    service.reveal(f"{name}-1", "ham")
    expect(page.locator(".inbox-gone")).to_be_visible()
    page.keyboard.type("m")
    page.keyboard.press("Enter")
    expect(features(page)).to_have_text("0")
    expect(page.get_by_label("Find a label")).to_have_value("")
    assert service.stats(name)["rounds"]["pending"] == 1
    assert service.stats(name)["confusion"]["labels"] == ["ham"]


def test_two_people_with_the_same_prediction_do_not_collide(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(features(page)).to_have_text("2")
    # Before this page hears of it, somebody else has revealed what it shows, as something else.
    page.route("**/feedback", lambda route: (service.reveal(f"{name}-3", "ham"), route.continue_()))
    page.keyboard.press("2")
    expect(page.locator(".inbox-said")).to_contain_text("Already labelled or expired")
    expect(features(page)).to_have_text("-1")
    assert service.stats(name)["rounds"]["revealed"] == 9
    page.complaints.expect("409")


def test_labels_that_appear_by_themselves_are_typed(service: Service, name: str, open_page: Open) -> None:
    service.create(name, labels=None, features="named")
    service.predict(name, {"word": "free"}, id=f"{name}-a")
    service.predict(name, {"word": "late"}, id=f"{name}-b")
    page = opened(service, name, open_page, width=375)
    expect(page.locator(".inbox-features dt")).to_have_text("word=late")
    page.get_by_label("Type a label").fill("1 s")  # keys are typed here, and skip nothing
    page.keyboard.press("Enter")
    expect(page.locator(".inbox-features dt")).to_have_text("word=free")
    expect(page.get_by_role("button", name="1 s")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    eventually(lambda: service.stats(name)["confusion"]["labels"] == ["1 s"])


@pytest.mark.parametrize("width", [1280, 375])
def test_a_label_keeps_its_key_and_its_place_for_the_whole_visit(
    service: Service, name: str, open_page: Open, width: int
) -> None:
    labels = [f"label {number:02}" for number in range(12)]
    service.create(name, labels=labels)
    for number, label in enumerate(labels):
        features_of = [float(number == at) for at in range(12)]
        for _ in range(1 + (number == 10)):  # which is true most often, and comes first
            service.learn(name, features_of, label)
        service.predict(name, features_of, id=f"{name}-{number}")
    page = opened(service, name, open_page, width=width)
    buttons = page.get_by_role("group", name="True label").locator("button[title]")
    offered = [labels[10], *labels[:10], labels[11]]
    keyed = [f"{label}{number}" if number < 10 else label for number, label in enumerate(offered, 1)]
    expect(buttons).to_have_text(keyed)
    first, served = places(page), set()
    for number in range(12):
        expect(page.locator(".inbox .about")).to_have_text(
            f"{12 - number} prediction{'s are' if number < 11 else ' is'} pending."
        )
        served.add(page.locator(".inbox-served strong").inner_text())
        expect(page.locator(".reveals .served .label")).to_have_text(
            page.locator(".inbox-served strong").inner_text()
        )
        assert places(page) == first
        page.keyboard.press("4")
        expect(page.locator(".inbox-said")).to_contain_text(f"{number + 1} label")
    assert len(served) > 3
    assert service.stats(name)["classes"][2]["support"] == 13


def test_a_label_that_appears_during_the_visit_gets_the_next_key(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=None)
    service.learn(name, [1.0], "ham")
    for number in range(3):
        service.predict(name, [float(number)])
    page = opened(service, name, open_page)
    buttons = page.get_by_role("group", name="True label").locator("button[title]")
    expect(buttons).to_have_text(["ham1"])
    service.learn(name, [1.0], "a word before it")
    expect(buttons).to_have_text(["ham1", "a word before it2"])
    page.get_by_label("Find a label").fill("spam")
    page.keyboard.press("Enter")
    expect(buttons).to_have_text(["ham1", "a word before it2", "spam3"])


def test_of_many_classes_enter_confirms_the_served_one_wherever_it_stands(
    service: Service, name: str, open_page: Open
) -> None:
    labels = [f"label {number:02}" for number in range(60)]
    service.create(name, labels=labels)
    for label in [*labels[:40] * 2, labels[50]]:
        service.learn(name, [1.0, 0.0], label)
    service.predict(name, [1.0, 0.0])
    page = opened(service, name, open_page)
    served = page.locator(".inbox-served strong").inner_text()
    assert served == labels[50]
    buttons = page.get_by_role("group", name="True label").locator("button[title]")
    expect(buttons).to_have_text(
        [*(f"{label}{number}" for number, label in enumerate(labels[:9], 1)), *labels[9:24], served]
    )
    expect(page.locator(".ask")).to_have_text("What is the true label? Enter confirms the served label.")
    page.keyboard.press("Enter")
    expect(page.locator(".inbox-said")).to_have_text(f"{served}: as it was served. 1 label by you.")


def test_enter_confirms_what_was_served_also_after_a_click_on_another_label(
    service: Service, name: str, open_page: Open
) -> None:
    made_with_four_waiting(service, name)
    page = opened(service, name, open_page)
    expect(page.locator(".inbox-served")).to_contain_text("The model said spam")
    page.keyboard.press("Enter")
    expect(page.locator(".inbox-served")).to_contain_text("The model said ham")
    page.get_by_role("button", name="spam").click()
    expect(features(page)).to_have_text("0.02")
    served = page.locator(".inbox-served strong").inner_text()
    page.keyboard.press("Enter")  # not the label that was clicked before
    expect(page.locator(".inbox-said")).to_have_text(f"{served}: as it was served. 3 labels by you.")
    expect(features(page)).to_have_text("1")
    undo(page).click()
    expect(features(page)).to_have_text("0.02")
    page.get_by_role("button", name="Skip").click()
    expect(features(page)).to_have_text("1")
    page.keyboard.press("Enter")  # not another skip
    expect(page.locator(".inbox-said")).to_contain_text("as it was served. 4 labels by you.")
