"""The examples that everything is fed with: 64 features, two classes, one label in twenty wrong.

The numbers are sent as a JSON library writes them, with all their digits (19 bytes each), which is harder on a
service that has to read them than on a library that does not.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import cycle, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

FEATURES = 64
EXAMPLES = 1_000
NAMES = tuple(f"f{i}" for i in range(FEATURES))

encode = msgspec.json.Encoder().encode


class Example(NamedTuple):
    features: list[float]
    label: int

    @property
    def named(self) -> dict[str, float]:
        return dict(zip(NAMES, self.features, strict=True))


@cache
def examples() -> list[Example]:
    """The same in every process."""
    chance = np.random.default_rng(1962)
    plane = chance.normal(size=FEATURES)
    features = chance.normal(size=(EXAMPLES, FEATURES))
    wrong = chance.random(EXAMPLES) < 0.05
    labels = np.where((features @ plane > 0) ^ wrong, 1, -1)
    return [Example(x, y) for x, y in zip(features.tolist(), labels.tolist(), strict=True)]


def model_names(count: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{i:06}" for i in range(count)]


def predict_bodies(models: Sequence[str]) -> list[bytes]:
    """Of `/predict`, the models in turn."""
    return [encode({"model": model, "features": example.features}) for model, example in _pairs(models)]


def learn_bodies(models: Sequence[str]) -> list[bytes]:
    """Of `/learn`, the models in turn."""
    return [encode(_round(model, example)) for model, example in _pairs(models)]


def learn_items(models: Sequence[str]) -> bytes:
    """One body of `/learn` with a round for each of these models."""
    items = [_round(model, example) for model, example in zip(models, cycle(examples()))]
    return encode({"items": items})


def lines(models: Sequence[str | None], *, named: bool = False) -> list[bytes]:
    """Lines of `/stream`, the models in turn; None leaves it to the query."""
    return [encode(_round(model, example, named=named)) + b"\n" for model, example in _pairs(models)]


def arrow(rows: int) -> bytes:
    """An Arrow stream of so many rounds."""
    import pyarrow as pa

    repeated = list(islice(cycle(examples()), rows))
    flat = pa.array(np.array([example.features for example in repeated]).ravel())
    table = pa.table(
        {
            "features": pa.FixedSizeListArray.from_arrays(flat, FEATURES),
            "label": pa.array([example.label for example in repeated]),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return bytes(sink.getvalue().to_pybytes())


def _pairs(models: Sequence[str | None]) -> Iterator[tuple[Any, Example]]:
    """Every model, and at least every example, once."""
    count = max(len(models), EXAMPLES)
    return islice(zip(cycle(models), cycle(examples())), count)


def _round(model: str | None, example: Example, *, named: bool = False) -> dict[str, Any]:
    features = example.named if named else example.features
    body = {"features": features, "label": example.label}
    return body if model is None else {"model": model, **body}
