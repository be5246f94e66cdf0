"""The audit trail on a model's page: pages, filters, dates."""

import re
from typing import Any

from tests.e2e.pages import Open, card, expect
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

SHOWN = 14


def numbers(trail: Any) -> Any:
    return trail.locator("tbody td:first-child")


def told(service: Service, name: str) -> list[dict[str, Any]]:
    """All events, newest first."""
    events = service.get(f"/models/{name}/events?limit=1000")["events"]
    return list(reversed(events))


def as_shown(events: list[dict[str, Any]]) -> list[str]:
    return [f"{each['seq']:,}" for each in events]


def a_trail(service: Service, name: str) -> None:
    """Rounds with two labels, with those of another model between them and resets now and then."""
    service.create(name, labels=["ham", "spam"])
    for number in range(33):
        service.learn(name, [1.0, float(number % 3)], "spam" if number % 4 == 0 else "ham")
        if number % 3 == 0:
            service.learn(f"{name}.other", [1.0], 1)
        if number % 11 == 5:
            service.post(f"/models/{name}/reset", {})
    late = service.predict(name, [1.0, 1.0])
    service.reveal(late["prediction_id"], "ham")


def test_the_trail_is_paged_back_to_its_beginning_and_forth(
    service: Service, name: str, open_page: Open
) -> None:
    a_trail(service, name)
    wanted = as_shown(told(service, name))
    page = open_page(service, f"#/models/{name}")
    trail = card(page, "Audit trail")
    heads = ["Event", "Time", "Kind", "True label", "Served", "Details"]
    expect(trail.locator("thead th")).to_have_text(heads)
    older, newer = (trail.get_by_role("button", name=each) for each in ("Older", "Newer"))
    expect(numbers(trail)).to_have_text(wanted[:SHOWN])
    expect(newer).to_be_disabled()
    older.click()
    expect(numbers(trail)).to_have_text(wanted[SHOWN : 2 * SHOWN])
    service.learn(name, [1.0, 0.0], "ham")  # an older page stays as it is
    older.click()
    expect(numbers(trail)).to_have_text(wanted[2 * SHOWN :])
    expect(trail.get_by_role("status")).to_have_text("The trail begins here.")
    expect(older).to_be_disabled()
    newer.click()
    expect(numbers(trail)).to_have_text(wanted[SHOWN : 2 * SHOWN])
    newer.click()
    expect(numbers(trail)).to_have_text(as_shown(told(service, name))[:SHOWN])
    dates = trail.locator("tbody time").all_inner_texts()
    assert all(re.fullmatch(r"\d+ \w+ \d{4}, \d\d:\d\d:\d\d \S+", date) for date in dates), dates


def test_numbers_of_events_are_on_one_line(service: Service, name: str, open_page: Open) -> None:
    service.create(name, labels=["ham", "spam"])
    for _ in range(1000):  # all models of the service share the numbers: these get a comma
        service.learn(f"{name}.other", [1.0], 1)
    for _ in range(14):
        service.learn(name, [1.0], "spam", tag="a tag that takes up some room")
    page = open_page(service, f"#/models/{name}", width=1024)
    cells = numbers(card(page, "Audit trail"))
    expect(cells).to_have_count(SHOWN)
    assert all("," in each for each in cells.all_inner_texts())
    boxes = """(all) => all.map((cell) => {
        const text = document.createRange();
        text.selectNodeContents(cell);
        return text.getClientRects().length;
    })"""
    assert set(cells.evaluate_all(boxes)) == {1}


def test_the_trail_is_filtered_by_kind_and_by_label(service: Service, name: str, open_page: Open) -> None:
    a_trail(service, name)
    events = told(service, name)
    page = open_page(service, f"#/models/{name}")
    trail = card(page, "Audit trail")
    expect(numbers(trail)).to_have_count(SHOWN)
    trail.get_by_label("Kind").select_option("reset")
    resets = [each for each in events if each["kind"] == "reset"]
    expect(numbers(trail)).to_have_text(as_shown(resets))
    expect(trail.locator("tbody tr").first.locator("td").nth(5)).to_have_text("back to the start, round 0")
    trail.get_by_label("Kind").select_option("All kinds")
    trail.get_by_label("Label", exact=True).select_option("spam")
    spam = [each for each in events if each.get("label") == "spam"]
    expect(numbers(trail)).to_have_text(as_shown(spam))
    trail.get_by_label("Kind").select_option("revealed")
    expect(trail.get_by_role("status")).to_have_text("Event not found.")


def test_the_chart_marks_every_drift_with_the_round_that_the_trail_tells(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, bias=False)
    rounds = ([1] * 400 + [1, -1] * 40) * 3  # right for long, then always wrong for a while
    for at in range(0, len(rounds), 480):
        service.stream([{"features": [1.0], "label": label} for label in rounds[at : at + 480]], name)

    def drifts() -> list[int]:
        found = service.get(f"/models/{name}/events?kinds=drift")["events"]
        assert {each["kind"] for each in found} <= {"drift"}
        return [each["round"] for each in found]

    eventually(lambda: len(drifts()) == service.stats(name)["drift"]["count"] >= 2)
    page = open_page(service, f"#/models/{name}")
    marks = card(page, "Error over rounds").locator(".mark title")
    expect(marks).to_have_count(len(drifts()))
    assert sorted(marks.all_text_contents()) == sorted(f"drift, {number:,}" for number in drifts())
    trail = card(page, "Audit trail")
    trail.get_by_label("Kind").select_option("drift")
    told = [f"the error rose at round {number:,}" for number in reversed(drifts())]
    expect(trail.locator("tbody td:last-child")).to_have_text(told)
    service.post(f"/models/{name}/reset", {})
    expect(marks).to_have_text(["reset, 0"])
    service.post(f"/models/{name}/rollback", {"to": drifts()[0] + 1})
    expect(marks).to_have_text([f"rollback, {drifts()[0] + 1:,}", f"drift, {drifts()[0]:,}"])
    trail.get_by_label("Kind").select_option("rolled_back")
    told = f"back to version {drifts()[0] + 1:,}, round {drifts()[0] + 1:,}"
    expect(trail.locator("tbody td:last-child")).to_have_text([told])
    page.goto("about:blank")
    page.goto(f"{service.url}/#/models/{name}?at={len(rounds)}")  # before the reset
    expect(marks).to_have_count(len(drifts()))


def test_what_a_rollback_has_undone_says_so_until_that_is_undone_too(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name)
    for number in range(6):
        service.learn(name, [1.0, float(number)], 1)
    service.post(f"/models/{name}/rollback", {"to": 4})
    service.learn(name, [1.0, 1.0], -1)
    rollback = told(service, name)[1]
    assert rollback["kind"] == "rolled_back"
    page = open_page(service, f"#/models/{name}")
    trail = card(page, "Audit trail")
    details = trail.locator("tbody td:last-child")
    undone = f"undone by the rollback, event {rollback['seq']:,}"
    expect(details.nth(2)).to_have_text(undone)
    expect(trail.locator("tbody tr.undone")).to_have_count(2)
    expect(trail.locator("tbody tr.undone").last.locator("td:last-child")).to_have_text(undone)
    service.post(f"/models/{name}/rollback", {"to": 6})  # of before the first rollback
    expect(trail.locator("tbody tr.undone td:nth-child(3)")).to_have_text(["learned", "rolled back"])


def test_rounds_learned_at_once_say_how_many_have_the_label_that_is_sought(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=["ham", "spam"])
    lines = [{"features": [1.0], "label": "ham" if at % 4 else "spam"} for at in range(40)]
    service.stream(lines, model=name)
    page = open_page(service, f"#/models/{name}")
    trail = card(page, "Audit trail")
    blocks = [each for each in told(service, name) if each["kind"] == "rounds"]
    trail.get_by_label("Label", exact=True).select_option("spam")
    expect(trail.locator("tbody td:last-child")).to_have_text(
        [
            f"{len(each['labels'])} rounds learned at once; {each['labels'].count('spam')} of them with spam"
            for each in blocks
            if "spam" in each["labels"]
        ]
    )


def test_events_of_an_unknown_kind_are_refused(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    answer = service.client.get(f"/models/{name}/events?kinds=drift,nonsense")
    assert problem_of(answer) == (422, "invalid-request")
    first = service.get(f"/models/{name}/events?kinds=created,learned&limit=1")
    assert [each["kind"] for each in first["events"]] == ["created"]
    rest = service.get(f"/models/{name}/events?kinds=created,learned&cursor={first['next']}")
    assert [each["kind"] for each in rest["events"]] == ["learned"] and rest["next"] is None
