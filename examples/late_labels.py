"""Labels that come late, and a world that changes.

Web pages are called phishing or not at once; whether that was right is known only thirty pages later. Halfway
the other side changes its ways: what looked safe is dangerous now, and the other way round. The service
keeps each prediction until its label comes, tells how late labels are, and notices the change.

    pip install river
    novikoff serve &
    python examples/late_labels.py
"""

import argparse
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from river import datasets

from novikoff import DEFAULT_URL, Client, Outcome, Refused, make_id

MODEL = "example-late-labels"
PAGES = 400
DELAY = 30


def pages() -> Iterator[tuple[dict[str, float], bool]]:
    """The same pages twice; the second time the labels mean the opposite."""
    for has_changed in (False, True):
        for features, is_phishing in islice(datasets.Phishing(), PAGES):
            yield features, is_phishing != has_changed


def lines() -> Iterator[dict[str, Any]]:
    """A prediction for each page, and the label of the page that was thirty before."""
    waiting: deque[tuple[str, bool]] = deque()
    for features, label in pages():
        prediction_id = make_id()
        yield {"features": features, "id": prediction_id}
        waiting.append((prediction_id, label))
        if len(waiting) > DELAY:
            yield reveal(*waiting.popleft())
    while waiting:
        yield reveal(*waiting.popleft())


def reveal(prediction_id: str, label: bool) -> dict[str, Any]:
    return {"prediction_id": prediction_id, "label": label}


def main() -> None:
    parser = argparse.ArgumentParser(description="Labels that come late, and a world that changes.")
    parser.add_argument("--url", default=DEFAULT_URL)
    with Client(parser.parse_args().url) as client:
        with suppress(Refused):
            client.delete_model(MODEL)
        client.create_model(
            MODEL, labels=[False, True], features="named", learner={"algorithm": "pa1", "C": 0.1}
        )
        mistakes = [
            answer.mistake for answer in client.stream(lines(), model=MODEL) if isinstance(answer, Outcome)
        ]
        stats = client.stats(MODEL)
    print(" pages  error of the last 100")
    for end in range(100, len(mistakes) + 1, 100):
        rate = sum(mistakes[end - 100 : end]) / 100
        print(f"{end:6}  {rate:.2f} {'#' * round(rate * 40)}{'  <- the change' if end == PAGES else ''}")
    print(f"{stats.rounds.revealed} labels, at most {stats.delay.updates_max} updates late")
    found = f"was found at page {stats.drift.last_round}" if stats.drift.count else "was not found"
    print(f"the change {found}")


if __name__ == "__main__":
    main()
