"""Which settings for which data: the table on `/docs`, which docs/models.md repeats."""

from typing import Any, NamedTuple

import msgspec


class Advice(NamedTuple):
    """What the data are like, and the settings of a model for them."""

    data: str
    settings: dict[str, Any]
    why: str

    @property
    def row(self) -> list[str]:
        """As the cells of a table in Markdown."""
        return [self.data, f"`{spaced_json(self.settings)}`", self.why]


def spaced_json(value: Any) -> str:
    """
    >>> spaced_json({"labels": None})
    '{"labels": null}'
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode().replace("\n", " ")


def _scaled(algorithm: str, **more: Any) -> dict[str, Any]:
    return {"learner": {"algorithm": algorithm}, "features": {"kind": "dense", "standardize": True, **more}}


ADVICE = (
    Advice(
        "You do not know, or it may change",
        {"learner": {"algorithm": "auto"}},
        "close to the best of the rows below on every stream it was tried on; costs about as much as all of them",
    ),
    Advice(
        "Numbers on different scales, classes that a plane tells apart",
        _scaled("scw"),
        "learns from few examples; `arow` where labels are noisy",
    ),
    Advice(
        "Noisy labels, or a plane that moves slowly",
        _scaled("logistic"),
        "learns a little from every example",
    ),
    Advice(
        "A stream that changes its mind, or labels that come in runs",
        {**_scaled("arow_forgetting"), "learner": {"algorithm": "arow_forgetting", "r": 0.1, "forget": 0.01}},
        "never too sure to follow",
    ),
    Advice(
        "A curved boundary, up to some tens of numbers",
        _scaled("arow", fourier={}),
        "`gamma` 4 times as large where it has many bends",
    ),
    Advice(
        "Features that matter together, such as price × time",
        _scaled("scw", crosses=2),
        "products of all pairs, whose weights can be read",
    ),
    Advice(
        "Many rare names: words, ids, categories",
        {"learner": {"algorithm": "arow"}, "features": {"kind": "hashed"}, "labels": None},
        "rare features move more; memory is known before",
    ),
    Advice("A mistake bound that is proved, or the least cost", {}, "the plain perceptron, the default"),
)


def advice_table() -> str:
    """In Markdown."""
    rows = [["your data", "settings", "why"], ["---"] * 3, *(advice.row for advice in ADVICE)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
