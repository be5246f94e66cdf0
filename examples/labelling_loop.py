"""A labelling loop: people label only what the model asks for.

Web pages come a hundred a day, and somebody has to look at a page to know whether it is phishing. One model gets
the label of every page. The other one says of each which labels it wants, and gets only those in the evening. It
errs about as often, and the service estimates how often from the labels that were asked for.

    pip install river
    novikoff serve &
    python examples/labelling_loop.py
"""

import argparse
import random
from contextlib import suppress

from river import datasets

from novikoff import DEFAULT_URL, Client, Prediction, Refused

ALL, ASKING = "example-labelling-all", "example-labelling-asking"
TIMES = 4
PAGES_A_DAY = 100

Page = tuple[list[float], bool]


def pages() -> list[Page]:
    """The same pages a few times, in orders that are random and the same in every run."""
    chance = random.Random(0)
    distinct = [(list(features.values()), is_phishing) for features, is_phishing in datasets.Phishing()]
    return [page for _ in range(TIMES) for page in chance.sample(distinct, len(distinct))]


def label_what_is_asked_for(client: Client, seen: list[Page]) -> tuple[int, int]:
    """Predict the pages of each day, then reveal what was asked for; labels that were used, and mistakes in all."""
    labels = mistakes = 0
    for start in range(0, len(seen), PAGES_A_DAY):
        today = seen[start : start + PAGES_A_DAY]
        wanted = []
        answers = client.stream(({"features": features} for features, _ in today), model=ASKING)
        for answer, (_, label) in zip(answers, today, strict=True):
            assert isinstance(answer, Prediction)
            mistakes += answer.label != label  # known to us here; the service never hears of most
            if answer.ask:
                wanted.append({"prediction_id": answer.prediction_id, "label": label})
        labels += len(client.stream(wanted))
    return labels, mistakes


def main() -> None:
    parser = argparse.ArgumentParser(description="People label only what the model asks for.")
    parser.add_argument("--url", default=DEFAULT_URL)
    seen = pages()
    with Client(parser.parse_args().url) as client:
        for model, ask in ((ALL, None), (ASKING, "auto")):
            with suppress(Refused):
                client.delete_model(model)
            client.create_model(model, labels=[False, True], learner={"algorithm": "arow"}, ask=ask)
        mistakes_of_all = sum(outcome.mistake for outcome in client.learn_many(ALL, seen, safe=False))
        labels, mistakes = label_what_is_asked_for(client, seen)
        asked = client.stats(ASKING).ask
    assert asked is not None and asked.error_rate_interval is not None
    low, high = asked.error_rate_interval.low, asked.error_rate_interval.high
    print(f"{len(seen)} pages")
    print(f"every label:          {len(seen)} labels, error {mistakes_of_all / len(seen):.3f}")
    print(f"those it asked for:   {labels} labels, error {mistakes / len(seen):.3f}")
    print(f"the service's estimate of that error: {asked.error_rate:.3f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
