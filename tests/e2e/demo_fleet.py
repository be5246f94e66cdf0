"""A small fleet that looks like a real one: sent through /stream, for the pictures in the docs."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from tests.support.service_process import Service

# fmt: off
WORDS = [
    "free", "winner", "invoice", "meeting", "lunch", "urgent", "click", "account", "verify", "thanks",
    "project", "report", "offer", "prize", "password", "team", "review", "budget", "holiday", "photo",
]
# fmt: on

Line = dict[str, Any]


def make_demo_fleet(service: Service, lines_max: int | None = None) -> None:
    """Text with late labels, a declared margin that holds, one that does not, drift, several classes, users.

    `lines_max`: of each, only so many lines.
    """
    random = np.random.default_rng(7)
    named = {"kind": "named", "text": ["subject"]}
    service.create("spam-filter", labels=["ham", "spam"], features=named, coverage=0.9)
    service.create("fraud-eu", labels=["fine", "fraud"], declared_margin=0.1)
    service.create("fraud-us", labels=["fine", "fraud"], declared_margin=0.4)
    service.create("conversion", labels=["leaves", "buys"])
    service.create("intent", labels=None, learner={"algorithm": "arow"})
    for lines in (
        spam(random),
        separable(random, "fraud-eu", 0.12, flipped=0.0),
        separable(random, "fraud-us", 0.02, flipped=0.03),
        drifting(random),
        intents(random),
        *(user(random, f"user:{number:04d}") for number in range(40)),
    ):
        send(service, islice(lines, lines_max))


def send(service: Service, lines: Iterator[Line]) -> None:
    body = "\n".join(json.dumps(line) for line in lines)
    headers = {"content-type": "application/x-ndjson"}
    answer = service.client.post("/stream?answers=summary", content=body, headers=headers)
    assert answer.status_code == 200 and answer.json()["errors"] == 0, answer.text


def spam(random: np.random.Generator) -> Iterator[Line]:
    """The label of most messages comes some messages later."""
    guilt = dict(zip(WORDS, random.normal(0, 1.4, len(WORDS)), strict=True))
    waiting: list[Line] = []
    for number in range(4000):
        words = [str(word) for word in random.choice(WORDS, random.integers(3, 9))]
        links, known = int(random.integers(0, 5)), bool(random.random() < 0.5)
        score = sum(guilt[word] for word in words) + 0.6 * links - 1.5 * known - 0.4 + random.normal(0, 0.5)
        features = {"subject": " ".join(words), "links": links, "known_sender": known}
        yield {"model": "spam-filter", "features": features, "id": f"message-{number}"}
        waiting.append({"prediction_id": f"message-{number}", "label": "spam" if score > 0 else "ham"})
        while len(waiting) > 25 or (waiting and random.random() < 0.4):
            yield waiting.pop(int(random.integers(len(waiting))))


def separable(random: np.random.Generator, model: str, margin: float, flipped: float) -> Iterator[Line]:
    normal = random.normal(size=8)
    normal /= np.linalg.norm(normal)
    for x in 0.8 * random.normal(size=(4000, 8)):
        distance = float(normal @ x)
        if abs(distance) >= margin:
            is_fraud = (distance > 0) != (random.random() < flipped)
            yield {"model": model, "features": tidy(x), "label": "fraud" if is_fraud else "fine"}


def drifting(random: np.random.Generator) -> Iterator[Line]:
    """From round 1,900 on the labels are noisier."""
    normal = random.normal(size=6)
    for number, x in enumerate(random.normal(size=(2800, 6))):
        buys = normal @ x + random.normal(0, 0.15 if number < 1900 else 1.6) > 0
        yield {"model": "conversion", "features": tidy(x), "label": "buys" if buys else "leaves"}


def intents(random: np.random.Generator) -> Iterator[Line]:
    labels = ["order", "refund", "greeting", "complaint", "other"]
    centres = 1.4 * random.normal(size=(len(labels), 12))
    for _ in range(3000):
        which = int(random.choice(len(labels), p=[0.4, 0.2, 0.2, 0.15, 0.05]))
        x = centres[which] + random.normal(size=12)
        yield {"model": "intent", "features": tidy(x), "label": labels[which]}


def user(random: np.random.Generator, model: str) -> Iterator[Line]:
    normal, noise = random.normal(size=3), random.uniform(0, 0.6)
    for x in random.normal(size=(int(random.integers(20, 600)), 3)):
        yield {
            "model": model,
            "features": tidy(x),
            "label": 1 if normal @ x + random.normal(0, noise) > 0 else -1,
        }


def tidy(x: Any) -> list[float]:
    return [round(float(value), 3) for value in x]
