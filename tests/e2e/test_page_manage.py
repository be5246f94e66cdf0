"""Making and managing models on the page, as far as a key may."""

import csv
import json
from pathlib import Path

import pytest

from tests.e2e.pages import Open, card, expect, tile
from tests.support.service_process import Service


@pytest.mark.smoke
def test_a_model_is_made_by_a_form_that_knows_the_catalogue(
    service: Service, name: str, open_page: Open
) -> None:
    page = open_page(service, "#/new", width=375)
    expect(page.get_by_label("Learner").locator("option", has_text="scw").first).to_be_attached()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Learner").select_option("pa1")
    page.get_by_label("C", exact=True).fill("-1")
    page.get_by_label("Labels, comma-separated").fill("ham, spam")
    page.get_by_label("Features").select_option("named")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_role("button", name="Create the model").click()
    expect(page.get_by_role("alert")).to_contain_text("learner.C")
    page.get_by_label("C", exact=True).fill("0.5")
    page.get_by_role("button", name="Create the model").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    settings = service.get(f"/models/{name}")["settings"]
    assert settings["learner"] == {"algorithm": "pa1", "C": 0.5}
    assert settings["labels"] == ["ham", "spam"] and settings["features"]["kind"] == "named"
    page.complaints.expect("422")


def test_a_model_is_taken_along_as_a_file_and_its_statistics_as_csv(
    service: Service, name: str, open_page: Open, tmp_path: Path
) -> None:
    service.create(name, labels=None)
    for label in ("=1+1", "a,b", "c"):
        service.learn(name, [1.0, 2.0], label)
    page = open_page(service, f"#/models/{name}")
    with page.expect_download() as exported:
        card(page, "Manage").get_by_role("button", name="Export").click()
    exported.value.save_as(tmp_path / "export.json")
    twin = f"{name}.twin"
    content = json.loads((tmp_path / "export.json").read_text())
    assert service.client.put(f"/models/{twin}", json=content).status_code == 201
    with page.expect_download() as table:
        card(page, "Manage").get_by_role("button", name="Statistics as CSV").click()
    table.value.save_as(tmp_path / "statistics.csv")
    with (tmp_path / "statistics.csv").open(newline="") as file:
        rows = dict(csv.reader(file))
    assert rows["rounds.revealed"] == "3" and rows["confusion.labels.1"] == "a,b"
    assert rows["confusion.labels.0"] == "'=1+1"  # no formula for a spreadsheet


def test_a_model_is_reset_or_deleted_by_typing_its_name(service: Service, name: str, open_page: Open) -> None:
    service.learn(name, [1.0, 2.0], 1)
    page = open_page(service, f"#/models/{name}")
    expect(tile(page, "Rounds")).to_have_text("1")
    manage = card(page, "Manage")
    reset, delete = (manage.get_by_role("button", name=word) for word in ("Reset", "Delete"))
    expect(reset).to_be_disabled()
    manage.get_by_label("Reset:").fill(name[:-1])
    expect(reset).to_be_disabled()
    manage.get_by_label("Reset:").fill(name)
    reset.click()
    expect(manage.get_by_role("status")).to_have_text("The model was reset.")
    expect(tile(page, "Rounds")).to_have_text("0")
    manage.get_by_label("Delete:").fill(name)
    delete.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This model was deleted")
    assert service.client.get(f"/models/{name}").status_code == 404
    page.complaints.expect("404")  # cards may have been reading
