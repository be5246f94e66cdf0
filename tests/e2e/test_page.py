"""The page at `/` in a real browser, over a real service."""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from service.web.dashboard import FILES
from tests.e2e.demo_fleet import make_demo_fleet
from tests.e2e.pages import AWAY, Open, card, expect, percent, state, tile
from tests.e2e.test_damage import turn_over_bits
from tests.e2e.test_set_aside import append_damaged_round
from tests.support.api_keys import Holder, good, lines_of
from tests.support.ports import free_ports
from tests.support.service_process import Service

CURL = Path(__file__).parent.parent / "support" / "curl.py"
PICTURES = Path(__file__).parent.parent.parent / "docs" / "images"
MARKUP = '<img src="x" onerror="alert(1)"><b>bold</b>'
NOTE_STATES = """() => {
  const light = document.querySelector("#live");
  window.states = [light.textContent];
  new MutationObserver(() => states.push(light.textContent)).observe(light, { childList: true, subtree: true });
}"""
"""From then on, what the light in the header says is kept in `states`: one may be over before it is looked for."""

Start = Callable[..., Service]

LAYERS = ("lib", "charts", "cards", "views", "dashboard")
"""The folders of the page: each imports from those before it."""


# What is served


def test_the_page_is_served_under_a_strict_policy(service: Service) -> None:
    for path, media_type in (
        ("/", "text/html; charset=utf-8"),
        ("/dashboard/app.js", "text/javascript; charset=utf-8"),
        ("/dashboard/css/theme.css", "text/css; charset=utf-8"),
        ("/dashboard/favicon.svg", "image/svg+xml"),
    ):
        answer = service.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        etag = answer.headers["etag"]
        again = service.client.get(path, headers={"if-none-match": f'"other", W/{etag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert service.client.head(path).headers["content-length"] == str(len(answer.content))


def test_only_the_files_of_the_page_are_served(service: Service) -> None:
    for path in (
        "__init__.py",
        "nothing.js",
        "..%2f__init__.py",
        "%2e%2e/app.py",
        "lib/nothing.js",
        "css%2ftheme.css/x",
    ):
        assert service.client.get(f"/dashboard/{path}").status_code == 404, path


def test_the_sources_keep_to_the_policy() -> None:
    scripts = list(FILES.rglob("*.js"))
    assert scripts
    for path in scripts:
        source = path.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source
        )
        for other in re.findall(r"""(?<!["'])(?:from|import\()\s*["'](.*?)["']""", source):
            imported = (path.parent / other).resolve()
            assert other.startswith(".") and imported.is_file(), f"{path} imports {other}"
            assert LAYERS.index(imported.parent.name) <= LAYERS.index(path.parent.name), (
                f"{path} imports {other}"
            )
    index = (FILES / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)|//", index.split("<head>")[1])


# What people see


@pytest.mark.smoke
def test_the_first_curl_fills_the_empty_page(start: Start, open_page: Open) -> None:
    service = start()
    page = open_page(service)
    expect(page.get_by_role("heading", name="No models yet")).to_be_visible()
    commands = page.locator(".command code").all_inner_texts()
    for command in commands:
        arguments = shlex.split(command.replace("\\\n", " "))
        assert arguments[0] == "curl"
        done = subprocess.run(
            [sys.executable, CURL, *arguments[1:]], capture_output=True, text=True, check=True
        )
        assert "code" not in json.loads(done.stdout), done.stdout
    expect(page.get_by_role("link", name="spam")).to_be_visible()
    expect(tile(page, "Rounds")).to_have_text("2")
    expect(state(page)).to_have_text("Live")


@pytest.mark.smoke
def test_the_numbers_are_those_of_stats_while_rounds_flow(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=["no", "yes"])
    mistakes_at = {0: 0}
    seen: list[list[str]] = []
    enough = threading.Event()

    def flow() -> None:
        for number in count():
            if enough.is_set():
                return
            x = [(number * 7) % 11 - 5.0, (number * 3) % 7 - 3.0]
            done = service.learn(name, x, "yes" if x[0] + 0.4 * x[1] + number % 3 > 1 else "no")
            mistakes_at[done["rounds"]] = done["mistakes"]

    flowing = threading.Thread(target=flow)
    page = open_page(service, f"#/models/{name}")
    expect(state(page)).to_have_text("Live")
    flowing.start()
    try:
        for _ in range(3):
            before = page.locator(".tiles").inner_text()
            expect(page.locator(".tiles")).not_to_have_text(before, use_inner_text=True)
            seen.append(page.locator(".tile .value").all_inner_texts())  # one reading, all of one moment
    finally:
        enough.set()
        flowing.join()
    for values in seen:
        rounds, mistakes = (int(values[at].replace(",", "")) for at in (3, 2))
        assert mistakes == mistakes_at[rounds]
        assert values[1] == percent(mistakes / rounds)

    stats = service.stats(name)
    expect(tile(page, "Rounds")).to_have_text(f"{stats['rounds']['revealed']:,}")
    expect(tile(page, "Recent error")).to_have_text(percent(stats["ewma_error_rate"]))
    expect(tile(page, "Error rate")).to_have_text(percent(stats["error_rate"]))
    expect(tile(page, "Updates")).to_have_text(f"{stats['updates']:,}")
    expect(tile(page, "Pending")).to_have_text(f"{stats['rounds']['pending']:,}")
    cells = card(page, "Confusion").locator(".cell").all_inner_texts()
    assert cells == [f"{count:,}" for row in stats["confusion"]["matrix"] for count in row]
    figures = card(page, "Confusion").get_by_role("table").nth(1).locator("tbody tr").all_inner_texts()
    assert [row.split() for row in figures] == [
        [
            each["label"],
            f"{each['support']:,}",
            *(percent(each[key]) for key in ("precision", "recall", "f1")),
        ]
        for each in stats["classes"]
    ]
    windows = card(page, "Windows").locator("tbody tr").all_inner_texts()
    for row, key in zip(windows, ("last_100", "last_1000", "last_10000"), strict=False):
        window = stats["windows"][key]
        wanted = [f"{window['rounds']:,}", f"{window['mistakes']:,}", percent(window["error_rate"])]
        assert row.split()[-3:] == wanted
    baselines = card(page, "Compared with simple rules").locator(".bars .number").all_inner_texts()
    assert baselines == [
        percent(stats["error_rate"]),
        percent(stats["baselines"]["majority_error_rate"]),
        percent(stats["baselines"]["no_change_error_rate"]),
    ]
    words = card(page, "Mistakes against the bound").locator(".words")
    expect(words).to_contain_text(f"The model has learned from {stats['updates']:,} mistakes")

    page.get_by_role("link", name="All models").click()
    page.get_by_role("searchbox").fill(name)
    row = page.get_by_role("row", name=name)
    expect(row.locator(".mistakes")).to_have_text(f"{stats['mistakes']:,}")
    expect(row.locator(".recent")).to_have_text(percent(stats["ewma_error_rate"]))
    service.learn(name, [0.0, 0.0], "yes")
    expect(row.locator(".rounds")).to_have_text(f"{stats['rounds']['revealed'] + 1:,}")


@pytest.mark.smoke
def test_names_are_text_and_never_markup(service: Service, name: str, open_page: Open) -> None:
    service.create(name, labels=None, features="named")
    for label, features in ((MARKUP, {MARKUP: 1.0, "word": MARKUP}), ("fine", {"plain": 1.0})):
        service.learn(name, features, label)
    late = service.predict(name, {MARKUP: 1.0})
    service.reveal(late["prediction_id"], "<script>alert(2)</script>")

    page = open_page(service, f"#/models/{name}")
    head = card(page, "Confusion").get_by_role(
        "columnheader", name=MARKUP
    )  # its text is shortened, its name is not
    expect(head.locator(".label")).to_contain_text("<img")
    expect(card(page, "Audit trail").locator("td .label").first).to_have_text("<script>alert(2)</script>")
    expect(card(page, "Largest weights").locator("th .label", has_text="onerror").first).to_be_visible()
    page.get_by_label("Features").fill(json.dumps({MARKUP: 2}))
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("button", name="Teach it this example").click()
    group = page.get_by_role("group", name="True label")
    expect(group.get_by_role("button").first).to_have_text(MARKUP)
    group.get_by_label("Find a label").fill("<i>new</i>")
    group.get_by_role("button", name="Teach").click()
    expect(page.locator(".says")).to_contain_text("<i>new</i> was true.")
    assert page.locator("main img, main b, main i, main script").count() == 0

    page.goto(f"{service.url}/#/models/{quote(MARKUP, safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Model not found")
    expect(page.locator("main")).to_contain_text(MARKUP)
    assert page.locator("main img").count() == 0
    page.complaints.expect("Failed to load")


def test_a_model_that_cannot_be_read_is_named_beside_the_others(start: Start, open_page: Open) -> None:
    service = start(snapshot_every_events=5, events_kept_max=0)
    for _ in range(10):
        service.learn("m", [1.0], 1)
        service.learn("other", [1.0], 1)
    service.stop()
    turn_over_bits(service.data, "snapshot", "state", "true")
    service.start()
    page = open_page(service)
    expect(page.locator("tbody a")).to_have_text(["other"])
    expect(page.locator(".unreadable li")).to_contain_text("the snapshots of m are damaged")
    expect(tile(page, "Models")).to_have_text("2")


def test_a_model_that_is_set_aside_is_named_with_the_reason_also_on_its_own_page(
    start: Start, open_page: Open
) -> None:
    service = start()
    for name in ("ill", "well"):
        service.learn(name, [1.0, 2.0], 1)
    service.stop()
    # In a thread, since the browser has an event loop of its own in this one.
    damage = threading.Thread(target=append_damaged_round, args=(service.data, "ill"))
    damage.start()
    damage.join()
    service.start()
    reason = service.client.get("/stats/ill").json()["detail"]
    page = open_page(service)
    expect(page.locator("tbody a")).to_have_text(["well"])
    expect(page.locator(".unreadable li")).to_contain_text(reason)
    expect(page.get_by_role("region", name="1 model needs a look")).to_contain_text("damaged")
    page = open_page(service, "#/models/ill")
    expect(page.locator("main")).to_contain_text(reason)
    page.complaints.expect("503")


def test_two_thousand_models_are_searched_sorted_and_paged(start: Start, open_page: Open) -> None:
    service = start(durability="process")
    lines = [
        json.dumps({"model": f"{kind}-{number:04d}", "features": [1.0], "label": (-1) ** step})
        for number in range(1000)
        for kind in ("sensor", "user")
        for step in range(1 + (number == 777) * 4)
    ]
    service.client.post(
        "/stream?answers=summary",
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
    )
    page = open_page(service)
    links = page.locator("tbody a")
    expect(tile(page, "Models")).to_have_text("2,000")
    expect(tile(page, "Rounds")).to_have_text("2,008")
    expect(page.locator(".range")).to_have_text("1 to 50 of 2,000 models")
    expect(links.first).to_have_text("sensor-0000")
    expect(links).to_have_count(50)

    page.get_by_role("button", name="Next").click()
    expect(page.locator(".range")).to_have_text("51 to 100 of 2,000 models")
    expect(links.first).to_have_text("sensor-0050")
    page.get_by_role("button", name="Next").click()
    expect(links.first).to_have_text("sensor-0100")
    third = page.url
    page.get_by_role("button", name="Previous").click()
    expect(links.first).to_have_text("sensor-0050")
    page.reload()
    expect(links.first).to_have_text("sensor-0050")
    page.get_by_role("button", name="Previous").click()
    expect(links.first).to_have_text("sensor-0000")
    page.goto("about:blank")
    page.goto(third)  # as somebody has sent it
    expect(links.first).to_have_text("sensor-0100")
    page.get_by_role("button", name="Previous").click()
    expect(links.first).to_have_text("sensor-0050")
    expect(page.locator(".range")).to_have_text("51 to 100 of 2,000 models")
    page.get_by_role("button", name="Next").click()
    expect(links.first).to_have_text("sensor-0100")
    page.get_by_role("button", name="Previous").click()
    expect(links.first).to_have_text("sensor-0050")
    links.nth(1).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sensor-0051")
    page.get_by_role("link", name="All models").click()
    expect(links.first).to_have_text("sensor-0050")

    page.get_by_role("button", name="Rounds").click()
    expect(links.first).to_have_text(re.compile("-0777$"))
    expect(page.get_by_role("columnheader", name="Rounds")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Rounds").click()
    expect(links.first).not_to_have_text(re.compile("-0777$"))
    expect(page.get_by_role("columnheader", name="Rounds")).to_have_attribute("aria-sort", "ascending")
    for _ in range(2):
        service.predict("user-0042", [1.0])
    for head, first in (("Recent error", "-0777$"), ("Pending", "^user-0042$")):
        for way in ("descending", "ascending"):
            page.get_by_role("button", name=head).click()
            expect(page.get_by_role("columnheader", name=head)).to_have_attribute("aria-sort", way)
            found = expect(links.first)
            (found.to_have_text if way == "descending" else found.not_to_have_text)(re.compile(first))
    page.get_by_role("searchbox").fill("USER-09")
    expect(page.locator(".range")).to_have_text("1 to 50 of those found")
    with page.expect_request(lambda asked: "/feed?models=user-0777" in asked.url):
        page.get_by_role("searchbox").fill("er-0777")
    expect(links).to_have_count(1)
    expect(page.locator(".range")).to_have_text("1 model found")
    service.learn("user-0777", [1.0], 1)
    expect(page.get_by_role("row", name="user-0777").locator(".rounds")).to_have_text("6")
    page.go_back()
    page.get_by_role("searchbox").fill("nobody")
    expect(page.locator(".none")).to_contain_text("No model has “nobody” in its name.")


@pytest.mark.smoke
def test_a_restart_is_seen_and_survived(tmp_path: Path, open_page: Open) -> None:
    service = OnOnePort(tmp_path / "data").start()
    try:
        service.learn("steady", [1.0, 2.0], 1)
        page = open_page(service, "dashboard/favicon.svg")
        page.clock.install()
        page.goto(f"{service.url}/#/")
        expect(state(page)).to_have_text("Live")
        expect(tile(page, "Rounds")).to_have_text("1")
        page.evaluate(NOTE_STATES)
        service.stop()
        expect(state(page)).not_to_have_text("Live")
        page.clock.fast_forward(12_000)
        expect(state(page)).to_contain_text("Stale since")
        assert page.evaluate("states.slice(0, 2)") == ["Live", "Reconnecting"]
        service.start()
        service.learn("steady", [1.0, 2.0], -1)
        page.clock.fast_forward(15_000)
        expect(state(page)).to_have_text("Live")
        expect(tile(page, "Rounds")).to_have_text("2")
        page.get_by_role("link", name="steady").click()
        expect(tile(page, "Mistakes")).to_have_text("1")
        page.complaints.expect(*AWAY)
        page.close()
    finally:
        service.close()


@pytest.mark.smoke
def test_a_model_that_is_deleted_or_unknown_is_said_to_be_gone(
    service: Service, name: str, open_page: Open
) -> None:
    service.learn(name, [1.0], 1)
    service.learn(f"{name}.stays", [1.0], 1)
    page = open_page(service, f"#/models/{name}")
    expect(state(page)).to_have_text("Live")
    service.client.delete(f"/models/{name}")
    expect(page.get_by_role("heading", level=1)).to_have_text("This model was deleted")
    page.complaints.expect("404")  # cards may have been reading
    page.get_by_role("link", name="All models").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")


def test_the_commonest_mistakes_of_many_classes_are_listed(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=[f"label {at}" for at in range(60)], multiclass="multiclass")
    for _ in range(2):
        service.learn(name, [1.0], "label 59")
    page = open_page(service, f"#/models/{name}")
    rows = card(page, "Confusion").locator("table", has_text="The most common mistakes").locator("tbody tr")
    expect(rows).to_have_text(["label 59label 01"])


def test_a_feature_called_bias_stands_beside_the_bias(service: Service, name: str, open_page: Open) -> None:
    service.create(name, features="named", bias_value=3.0)
    service.learn(name, {"bias": 2.0, "a": 1.0}, -1)
    page = open_page(service, f"#/models/{name}")
    names = card(page, "Largest weights").locator("tbody th .label")
    expect(names).to_have_text(["bias", "“bias”", "a"])
    page.get_by_label("Features").fill(json.dumps({"bias": 2, "null": 1}))
    page.get_by_role("button", name="Predict").click()
    terms = page.locator(".answer tbody tr")
    expect(terms).to_have_count(2)
    page.get_by_role("button", name="Teach it this example").click()
    page.get_by_role("group", name="True label").get_by_role("button", name="1", exact=True).click()
    expect(terms).to_have_count(3)
    expect(terms.locator("th .label")).to_have_text(["bias", "“bias”", "null"])


@pytest.mark.smoke
def test_trying_it_changes_nothing_and_teaching_it_moves_the_weights(
    service: Service, name: str, open_page: Open
) -> None:
    service.create(name, labels=["shut", "open"])
    service.learn(name, [1.0, -2.0], "shut")
    page = open_page(service, f"#/models/{name}")
    bars = card(page, "Largest weights").locator("tbody tr")
    expect(bars.first).to_contain_text("x[1]")
    expect(bars.first).to_contain_text("+2.00")
    features = page.get_by_label("Features")
    features.fill("2, 1")
    features.press("Enter")
    expect(page.locator(".says")).to_have_text("The model says shut with a score of −1.")
    assert service.stats(name)["rounds"] == {"predicted": 1, "revealed": 1, "pending": 0, "expired": 0}
    page.get_by_role("button", name="Teach it this example").click()
    page.get_by_role("group", name="True label").get_by_role("button", name="open").click()
    expect(page.locator(".says")).to_have_text(
        "A mistake. open was true. The weights moved: 2 mistakes in 2 rounds."
    )
    moved = page.locator(".answer tbody tr")
    expect(moved.first).to_contain_text("x[0]")
    expect(moved.first).to_contain_text("−1.00 → +1.00")
    expect(bars.first).to_contain_text("+3.00")
    assert service.stats(name)["rounds"] == {"predicted": 2, "revealed": 2, "pending": 0, "expired": 0}
    features.fill("2, 1, 3")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("alert")).to_contain_text("features")
    page.complaints.expect("422")


@pytest.mark.smoke
def test_the_keyboard_is_enough(service: Service, name: str, open_page: Open) -> None:
    for suffix in ("a", "b"):
        for label in (1, -1):
            service.learn(f"{name}-{suffix}", [1.0, 0.5], label)
    service.learn(f"{name}.other", [1.0, 0.5], 1)  # so that it is seen when the search has been made
    page = open_page(service)
    expect(state(page)).to_have_text("Live")
    expect(page.locator("tbody a").first).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(f"{name}-")
    expect(page.locator("tbody a")).to_have_count(2)
    page.locator("tbody a").first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name=f"{name}-b")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{name}-b")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    chart = card(page, "Error over rounds").locator(".chart")
    expect(chart.locator(".line").first).to_be_visible()
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(chart.locator(".tip")).to_contain_text("Round 2")
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).to_be_hidden()
    page.evaluate("document.activeElement.blur()")
    page.reload()
    expect(state(page)).to_have_text("Live")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.smoke
def test_a_key_is_asked_for_and_kept_for_the_tab(start: Start, name: str, open_page: Open) -> None:
    reader, writer = Holder("reader", "read"), Holder("writer", "write")
    service = start(api_keys=lines_of(reader, writer))
    good(writer.at(service).learn(name, [1.0], 1))
    page = open_page(service, f"#/models/{name}")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("API key").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Invalid API key.")
    dialog.get_by_label("API key").fill(reader.secret)
    dialog.get_by_role("button", name="Use this key").click()
    expect(tile(page, "Rounds")).to_have_text("1")
    expect(state(page)).to_have_text("Live")
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("Object.values(sessionStorage)") == [reader.secret]
    page.get_by_role("button", name="Forget key").click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API key required")
    page.complaints.expect("401")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.smoke
def test_a_phone_needs_no_sideways_scrolling(
    service: Service, name: str, open_page: Open, scheme: str
) -> None:
    long_name = f"{name}-".ljust(128, "x")
    service.create(long_name, labels=["a" * 200, "b"])
    for label in ("a" * 200, "b"):
        service.learn(long_name, [1.0, 2.0], label)
    page = open_page(service, f"#/?search={name}-", width=375, color_scheme=scheme)
    expect(page.get_by_role("link", name=long_name)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_role("link", name=long_name).click()
    expect(tile(page, "Rounds")).to_have_text("2")
    expect(card(page, "Settings").locator("dd").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


# For the docs


def test_pictures_for_the_docs(start: Start, open_page: Open, tmp_path: Path) -> None:
    """DOCS_IMAGES=1 puts them into the docs; else they are made of fewer rounds."""
    is_for_docs = bool(os.environ.get("DOCS_IMAGES"))
    pictures = PICTURES if is_for_docs else tmp_path
    service = start(durability="process")
    empty = open_page(service)
    expect(empty.get_by_role("heading", name="No models yet")).to_be_visible()
    empty.screenshot(path=pictures / "empty.png")
    empty.close()
    make_demo_fleet(service, None if is_for_docs else 300)
    for picture, address, width, scheme, whole in (
        ("fleet", "#/", 1280, "light", False),
        ("fleet-dark", "#/?sort=mistakes", 1280, "dark", False),
        ("model", "#/models/fraud-eu", 1280, "light", False),
        ("model-whole", "#/models/spam-filter", 1280, "light", True),
        ("model-dark", "#/models/conversion", 1280, "dark", False),
        ("classes", "#/models/intent", 1280, "light", True),
        ("phone-fleet", "#/", 375, "light", False),
        ("phone-model", "#/models/conversion", 375, "light", False),
    ):
        page = open_page(
            service, address, width, color_scheme=scheme, device_scale_factor=2 if width < 500 else 1
        )
        expect(state(page)).to_have_text("Live")
        expect(page.locator(".sparkline path, .series path").first).to_be_attached()
        if "models/" in address:
            expect(card(page, "Audit trail").locator("tbody tr").first).to_be_visible()
            expect(card(page, "Largest weights").locator("tbody tr").first).to_be_visible()
        page.screenshot(path=pictures / f"{picture}.png", full_page=whole, animations="disabled")
        page.close()  # or it would follow the feed beside all that come after it
    page = open_page(service, "#/models/spam-filter")
    page.get_by_label("Features").fill('{"subject": "free prize winner", "links": 2, "known_sender": true}')
    page.get_by_role("button", name="Predict").click()
    said = page.locator(".says strong").inner_text()
    page.get_by_role("button", name="Teach it this example").click()
    page.get_by_role("group", name="True label").get_by_role("button").nth(int(said == "ham")).click()
    expect(page.locator(".answer tbody tr").first).to_be_visible()
    card(page, "Try it").screenshot(path=pictures / "try-it.png", animations="disabled")


class OnOnePort(Service):
    """A service that starts again where it was, so that a browser finds it."""

    def start(self, *, cold: bool = False) -> "OnOnePort":
        if self.port == "0":
            self.port = str(free_ports(1)[0])
        super().start(cold=cold)
        return self
