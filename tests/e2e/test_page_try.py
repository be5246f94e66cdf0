"""Try it on the page of a model: what is taught, in a real browser."""

from tests.e2e.pages import Open, expect
from tests.support.service_process import Service


def test_what_is_taught_is_what_stands_in_the_field(service: Service, name: str, open_page: Open) -> None:
    service.create(name, labels=["shut", "open"])
    service.learn(name, [1.0, -2.0], "shut")
    page = open_page(service, f"#/models/{name}")
    features, predict = page.get_by_label("Features"), page.get_by_role("button", name="Predict")
    teach = page.get_by_role("button", name="Teach it this example")
    features.fill("2, 1")
    predict.click()
    expect(teach).to_be_visible()
    features.fill("3, 1")
    expect(teach).to_have_count(0)
    predict.click()
    expect(teach).to_be_visible()
    page.get_by_role("button", name="Fill in an example").click()
    expect(teach).to_have_count(0)
    predict.click()
    expect(teach).to_be_visible()
    # Asked again, without an answer: that of before is none to this.
    page.route("**/predict", lambda route: route.abort())
    predict.click()
    expect(page.get_by_role("alert")).to_have_text("The service does not respond. Try again in a moment.")
    expect(teach).to_have_count(0)
    page.complaints.expect("ERR_FAILED")


def test_an_answer_to_features_that_were_changed_meanwhile_is_not_shown(
    service: Service, name: str, open_page: Open
) -> None:
    service.learn(name, [1.0, -2.0], 1)
    page = open_page(service, f"#/models/{name}")
    features = page.get_by_label("Features")
    features.fill("2, 1")
    page.route("**/predict", lambda route: (features.fill("9, 9"), route.continue_()))
    with page.expect_response("**/predict"):
        features.press("Enter")
    page.evaluate(
        "fetch('livez').then((answer) => answer.text())"
    )  # what came before it has been shown by then
    expect(features).to_have_value("9, 9")
    assert page.locator(".says").count() == 0
