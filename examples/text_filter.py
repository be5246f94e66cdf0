"""A text filter, like one for spam: two kinds of messages come mixed, and the model learns as it sorts.

The messages are paragraphs of documentation: those about linear algebra are wanted (numpy's), those about data
types are not (pydantic's). The service splits the text into words itself, and nothing is trained beforehand.

    novikoff serve &
    python examples/text_filter.py
"""

import argparse
import ast
import random
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from novikoff import DEFAULT_URL, Client, Refused

MODEL = "example-text-filter"
SOURCES = {"wanted": ("numpy", "linalg"), "unwanted": ("pydantic", ".")}
MESSAGES = 300
WORDS_MIN = 12


def paragraphs(package: str, folder: str) -> Iterator[str]:
    """The paragraphs of the docstrings in a folder of a package."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None, f"pip install {package}"
    for path in sorted((Path(spec.origin).parent / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    if len(paragraph.split()) >= WORDS_MIN and ">>>" not in paragraph:
                        yield " ".join(paragraph.split())


def messages() -> list[tuple[str, str]]:
    """As many of each kind, in a random order that is the same each time."""
    chance = random.Random(0)
    mixed = []
    for label, source in SOURCES.items():
        distinct = sorted(set(paragraphs(*source)))
        mixed += [(text, label) for text in chance.sample(distinct, MESSAGES // 2)]
    chance.shuffle(mixed)
    return mixed


def main() -> None:
    parser = argparse.ArgumentParser(description="A text filter that learns as it sorts.")
    parser.add_argument("--url", default=DEFAULT_URL)
    with Client(parser.parse_args().url) as client:
        with suppress(Refused):
            client.delete_model(MODEL)
        client.create_model(
            MODEL,
            labels=["wanted", "unwanted"],
            learner={"algorithm": "arow"},
            features={"kind": "named", "text": ["body"], "normalize": "l2"},
        )
        print("messages  error so far")
        for number, (text, label) in enumerate(messages(), 1):
            prediction = client.predict(MODEL, {"body": text})
            outcome = client.feedback(prediction.prediction_id, label)
            if number % 100 == 0:
                print(f"{number:8}  {outcome.mistakes / outcome.rounds:.3f}")
        stats = client.stats(MODEL)
        print(f"the last 100: {stats.windows.last_100.error_rate:.3f}")

        weights = client.weights(MODEL)
        assert weights.names is not None
        by_weight = sorted(zip(weights.classes[0].weights, weights.names, strict=True))
        for label, words in (("wanted", by_weight[:8]), ("unwanted", by_weight[:-9:-1])):
            print(f"{label}: {', '.join(name.removeprefix('body=') for _, name in words)}")


if __name__ == "__main__":
    main()
