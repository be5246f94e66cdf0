"""What the page offers to keys of each role: nothing that would be refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.pages import Open, card, expect, state, tile
from tests.support.api_keys import Holder, good, lines_of
from tests.support.service_process import Service

MODEL = "acme-m"
VIEWS = {
    "fleet": "#/",
    "model": f"#/models/{MODEL}",
    "past": f"#/models/{MODEL}?at=20",
    "labels": f"#/models/{MODEL}/labels",
    "compare": f"#/compare?models={MODEL},{MODEL}/arow",
    "new": "#/new",
}
DOING = [
    "New model",
    "Teach",
    "Predict",
    "Promote",
    "Roll back",
    "Reset",
    "Delete",
    "Replay",
    "Does not count",
]

PRESS_ALL = """() => {
  for (const button of document.querySelectorAll("main button, main summary"))
    if (button.checkVisibility() && !button.disabled) button.click();
}"""


class Keys:
    """A service with a key of each role, and a model that all of them see."""

    def __init__(self, service: Service, *holders: Holder) -> None:
        self.service = service
        self.holders = {holder.line.split(":")[1]: holder.at(service) for holder in holders}

    def sign_in(self, open_page: Open, role: str) -> Any:
        page = open_page(self.service, VIEWS["fleet"])
        page.get_by_label("API key").fill(self.holders[role].secret)
        page.keyboard.press("Enter")
        expect(page.locator(f'html[data-role="{role}"]')).to_be_attached()
        expect(state(page)).to_have_text("Live")
        page.complaints.expect("401")
        return page


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    holders = [Holder(role, role, "acme-") for role in ("read", "write", "admin")]
    service = Service(tmp_path_factory.mktemp("keys") / "data", api_keys=lines_of(*holders)).start()
    keys = Keys(service, *holders)
    admin = keys.holders["admin"]
    challengers = {"arow": {"learner": {"algorithm": "arow"}}}
    good(admin.post("/models", {"model": MODEL, "challengers": challengers, "labels": ["no", "yes"]}))
    for number in range(40):
        good(admin.learn(MODEL, [float(number % 5 - 2), 1.0], "yes" if number % 5 > 1 else "no"))
    for number in range(3):
        good(admin.predict(MODEL, [float(number), 1.0]))
    yield keys
    service.close()


def go(keys: Keys, page: Any, view: str) -> None:
    page.goto(f"{keys.service.url}/{VIEWS[view]}")
    there = {
        "fleet": page.get_by_role("link", name=MODEL).first,
        "model": card(page, "Audit trail").locator("tbody tr").first,
        "past": page.get_by_text("You see the model as it was"),
        "labels": page.get_by_text("The model said"),
        "compare": page.get_by_role("table", name="Statistics of each"),
        "new": page.get_by_role("heading", name="New model"),
    }
    expect(there[view]).to_be_visible()


def test_a_key_that_may_only_look_finds_nothing_on_any_view_that_would_be_refused(
    keys: Keys, open_page: Open
) -> None:
    page = keys.sign_in(open_page, "read")
    before = good(keys.holders["read"].get(f"/stats/{MODEL}?fields=version,rounds"))
    changing: list[str] = []
    page.on("request", lambda asked: changing.append(asked.url) if asked.method != "GET" else None)
    for view in VIEWS:
        go(keys, page, view)
        for word in DOING:
            expect(page.get_by_role("button", name=word)).to_have_count(0)
        for word in ("New model", "Label predictions"):
            expect(page.get_by_role("link", name=word)).to_have_count(0)
        # Whatever else can be pressed: nothing of it asks for what is refused.
        page.evaluate(PRESS_ALL)
        for key in ("1", "2", "s"):
            page.keyboard.press(key)
    expect(page.locator("main")).to_contain_text("This API key cannot create models.")
    assert changing == [] and page.complaints.unexpected == []
    assert good(keys.holders["read"].get(f"/stats/{MODEL}?fields=version,rounds")) == before


def test_a_key_that_may_only_look_is_told_so_where_labels_wait(keys: Keys, open_page: Open) -> None:
    page = keys.sign_in(open_page, "read")
    go(keys, page, "labels")
    expect(page.get_by_text("can view pending predictions, but not reveal labels")).to_be_visible()
    expect(page.get_by_role("button")).to_have_text(["Forget key", "Skip S"])
    go(keys, page, "model")
    expect(card(page, "Manage").get_by_role("button")).to_have_text(["Export", "Statistics as CSV"])
    for title in ("Try it", "What if"):
        expect(card(page, title)).to_have_count(0)
    expect(card(page, "Challengers")).to_be_visible()


def test_each_role_is_offered_what_it_may_do(keys: Keys, open_page: Open) -> None:
    page = keys.sign_in(open_page, "write")
    go(keys, page, "labels")
    page.get_by_role("group", name="True label").get_by_role("button", name="yes").click()
    expect(page.get_by_text("1 label by you")).to_be_visible()
    go(keys, page, "model")
    expect(card(page, "Try it").get_by_role("button", name="Predict")).to_be_visible()
    expect(card(page, "What if")).to_have_count(0)
    expect(card(page, "Manage").get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("button", name="Forget key").click()
    page.get_by_label("API key").fill(keys.holders["admin"].secret)
    page.keyboard.press("Enter")
    expect(card(page, "What if")).to_be_visible()  # another key, and nothing had to be loaded anew
    expect(card(page, "Manage").get_by_role("button", name="Delete")).to_be_visible()
    expect(card(page, "Challengers").get_by_role("button", name="Promote arow")).to_be_visible()
    go(keys, page, "fleet")
    expect(page.get_by_role("link", name="New model")).to_be_visible()
    page.complaints.expect("401")


def test_a_model_is_rolled_back_to_the_version_that_is_looked_at(keys: Keys, open_page: Open) -> None:
    page = keys.sign_in(open_page, "admin")
    go(keys, page, "past")
    versions = page.get_by_role("region", name="Versions")
    versions.get_by_text("Roll back to this version").click()
    versions.get_by_role("button", name="Roll back").click()
    expect(versions).to_contain_text("The model was rolled back to version 20.")
    expect(tile(page, "Rounds")).to_have_text("20")
    expect(card(page, "Error over rounds").locator(".mark title")).to_have_text(["rollback, 20"])
    expect(card(page, "Audit trail")).to_contain_text("back to version 20, round 20")
