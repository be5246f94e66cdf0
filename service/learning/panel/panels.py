"""Every panel of experts that `"algorithm": "auto"` stands for, declared once, by its number.

A model keeps the number of its panel in its settings, and a replay must give the same bits: once a version of the
service has been released with a panel, the panel stays as it is, and a better one gets the next number. For the same
reason every parameter of every learner is written out here, whatever its default may be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMS = {
    "plain": "as sent",
    "standardized": "standardized",
    "fourier": "standardized, then 512 Fourier features with γ = 1/dimension; dense features only",
}
"""What an expert sees of an example: the name of the form, and what it is in docs/models.md."""

FOURIER_FEATURES = 512


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
    kept: float
    """Of its weight an expert that erred keeps this share, before all weights are made to add up to 1 again: e^-η."""
    share: float
    """What all weights give up at each step to be divided evenly: α, the chance to come back."""

    def experts_for(self, kind: str) -> tuple[Expert, ...]:
        """Those that take this kind of features."""
        return tuple(expert for expert in self.experts if kind == "dense" or expert.form != "fourier")


_PERCEPTRON = {"algorithm": "perceptron", "rule": "mistake", "delta": 0.0, "eta0": 1.0, "schedule": "constant"}
_PA1 = {"algorithm": "pa1", "C": 1.0}
_AROW = {"algorithm": "arow", "r": 1.0, "covariance": "diagonal"}
_SCW = {"algorithm": "scw", "C": 1.0, "eta": 0.9, "covariance": "diagonal"}

PANELS: dict[int, PanelDeclaration] = {
    1: PanelDeclaration(
        experts=(
            Expert("perceptron", _PERCEPTRON, "standardized"),
            Expert("pa1", _PA1, "standardized"),
            Expert("arow", _AROW, "standardized"),
            Expert("scw", _SCW, "standardized"),
            Expert("arow fourier", _AROW, "fourier"),
        ),
        kept=0.75,
        share=0.002,
    )
}
NEWEST = max(PANELS)
