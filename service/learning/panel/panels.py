"""Every panel of experts that `"algorithm": "auto"` stands for, declared once, by its number.

A model keeps the number of its panel in its settings, and a replay must give the same bits: once a version of the
service has been released with a panel, the panel stays as it is, and a better one gets the next number. For the same
reason every parameter of every learner is written out here, whatever its default may be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

FORMS = {
    "standardized": "each feature by its mean and deviation",
    "fourier": "standardized, then 512 Fourier features with γ = 1/dimension",
    "fine fourier": "standardized, and beside them 256 Fourier features with γ = 4/dimension",
    "crosses": "standardized, and beside them the products of all pairs and the squares, of up to 128 numbers",
    "hats": "standardized, and beside them 11 hat functions of each",
}
"""What an expert sees of an example: the name of the form, and what it is in docs/models.md."""


class Fourier(NamedTuple):
    """How many features, and γ times the dimension."""

    features: int
    gamma: float


FOURIER = {"fourier": Fourier(512, 1.0), "fine fourier": Fourier(256, 4.0)}
"""What the forms with Fourier features have of them."""


@dataclass(frozen=True, slots=True)
class Expert:
    """A learner and the form of the examples that it learns from."""

    name: str
    learner: Mapping[str, Any]
    """Its settings, as `algorithms.complete` would complete them."""
    form: str
    """One of `FORMS`."""


@dataclass(frozen=True, slots=True)
class PanelDeclaration:
    """Experts, and how their weights move; docs/theory.md has the formulas."""

    experts: tuple[Expert, ...]
    """Of dense features."""
    named: tuple[Expert, ...]
    """Of features with names, which have no form but the standardized."""
    kept: float
    """Of its weight an expert that erred keeps this share, before all weights are made to add up to 1 again: e^-η."""
    share: float
    """What all weights give up at each step to be divided evenly: α, the chance to come back."""

    def experts_for(self, kind: str) -> tuple[Expert, ...]:
        """Those that take this kind of features."""
        return self.experts if kind == "dense" else self.named


_SCW = {"algorithm": "scw", "C": 1.0, "eta": 0.9, "covariance": "diagonal"}
_AROW = {"algorithm": "arow", "r": 1.0, "covariance": "diagonal"}
_FORGETTING = {"algorithm": "arow_forgetting", "r": 0.1, "forget": 0.01, "covariance": "diagonal"}
_LOGISTIC = {"algorithm": "logistic", "eta0": 0.5}

_LOGISTIC_EXPERT = Expert("logistic", _LOGISTIC, "standardized")
_FORGETTING_EXPERT = Expert("arow_forgetting", _FORGETTING, "standardized")

PANELS: dict[int, PanelDeclaration] = {
    1: PanelDeclaration(
        experts=(
            _LOGISTIC_EXPERT,
            _FORGETTING_EXPERT,
            Expert("arow_forgetting on fourier", _FORGETTING, "fourier"),
            Expert("scw on fine fourier", _SCW, "fine fourier"),
            Expert("scw on crosses", _SCW, "crosses"),
            Expert("arow on hats", _AROW, "hats"),
        ),
        named=(Expert("scw", _SCW, "standardized"), _LOGISTIC_EXPERT, _FORGETTING_EXPERT),
        kept=0.75,
        share=0.003,
    )
}
NEWEST = max(PANELS)
