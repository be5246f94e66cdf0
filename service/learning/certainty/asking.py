"""Which labels to ask for: those that the model is least sure of, most often, and all of them sometimes.

Cesa-Bianchi, Gentile, Zaniboni: Worst-case analysis of selective sampling for linear classification, JMLR 7, 2006. A
label is asked for with the probability p = b/(b + gap/η), and never less than `LEAST`. docs/theory.md proves the bound
on the expected mistakes for late labels, and that the estimate of the error rate is unbiased.
"""

from __future__ import annotations

import hashlib
from typing import Any

from service.learning import saved
from service.learning.certainty.anytime import interval
from service.learning.statistics.rates import ratio

LEAST = 1 / 64
"""One label in 64 is asked for whatever the gap: what was asked for with a smaller chance would weigh too much in the
estimate of the error."""


def is_asked(prediction_id: str, key: str, probability: float) -> bool:
    """Whether a label is asked for: by chance, which is the same for a retry, a replay and every replica.

    >>> sum(is_asked(f"p{number}", "key", 0.25) for number in range(1000))
    270
    """
    digest = hashlib.blake2b(prediction_id.encode(), digest_size=8, key=key.encode()[:64]).digest()
    return int.from_bytes(digest, "big") < probability * 2**64


class Asking:
    """What a model with `ask` has asked for, and what came of it.

    `b` is given or, if it is None, follows the stream: (1 + 2D) R_z²/2 for the largest ‖z‖ and the most stale updates
    so far where the theorem holds, which makes its bound the smallest; else the usual gap, so that one label in two is
    asked for of the examples that are like most.
    """

    __slots__ = (
        "asked", "b", "b_given", "b_since", "eta", "revealed", "weighted_mistakes", "weighted_squares",
    )  # fmt: skip

    def __init__(self, b: float | None, eta: float) -> None:
        self.b_given = b
        self.eta = eta
        self.b = b or 0.0
        self.b_since = 0
        """How many rounds had been revealed when b last changed."""
        self.revealed = 0
        """Reveals of predictions that came with `ask`, true or false."""
        self.asked = 0
        """Those of them whose label had been asked for."""
        self.weighted_mistakes = 0.0
        """Σ e/p over these."""
        self.weighted_squares = 0.0
        """Σ e/p² over these."""

    def probability(self, gap: float) -> float:
        """The chance with which a label is asked for; 1 while nothing is known that b could be made of."""
        if not self.b:
            return 1.0
        return max(LEAST, self.b / (self.b + gap / self.eta))

    def follow(self, b: float, revealed: int) -> None:
        """Take a larger b, unless it was given; of a smaller one the bound would not speak."""
        if self.b_given is None and b > self.b:
            self.b = min(b, saved.SCORE_MAX)
            self.b_since = revealed

    def observe(self, probability: float, was_asked: bool, mistake: bool) -> None:
        """Take in a reveal of a prediction that was served with this probability of being asked for."""
        self.revealed += 1
        if was_asked:
            self.asked += 1
            if mistake:
                self.weighted_mistakes += 1.0 / probability
                self.weighted_squares += 1.0 / probability / probability

    def report(self, unasked: int, confidence: float) -> dict[str, Any]:
        """`unasked`: predictions whose label was not asked for and has not come."""
        predictions = self.revealed + unasked
        estimate = ratio(self.weighted_mistakes, predictions)
        within = None
        if predictions:
            within = interval(
                self.weighted_mistakes, predictions, self.weighted_squares, confidence, scale=1 / LEAST
            )._asdict()
        return {
            "b": self.b or None,
            "predictions": predictions,
            "asked": self.asked,
            "asked_rate": ratio(self.asked, predictions),
            "error_rate": None if estimate is None else min(1.0, estimate),
            "error_rate_interval": within and {**within, "confidence": confidence, "rounds": predictions},
        }

    def expected_mistakes(self, growth: float, root_k: float, gamma: float) -> float:
        """At most so many mistakes are to be expected with this b on a stream that is separable with margin γ.

        `growth` is (1 + 2D) R_z². docs/theory.md has the proof.

        >>> Asking(0.5, eta=1.0).expected_mistakes(growth=1.0, root_k=1.0, gamma=0.1)
        100.0
        """
        root = (2 * self.b + growth) * root_k / gamma
        return root * root / (8 * self.b)

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def restore(self, state: Any) -> None:
        """Become what `state` was taken from, with the same settings; `saved.BadState` if it cannot be one's state."""
        for name, value in zip(self.__slots__, saved.fields(state, *self.__slots__), strict=True):
            if name in ("b_given", "eta"):
                saved.check(value == getattr(self, name), name, "is not that of the settings")
            elif name in ("b", "weighted_mistakes", "weighted_squares"):
                setattr(self, name, saved.real(value, name, 0.0, saved.SCORE_MAX))
            else:
                setattr(self, name, saved.whole(value, name))
        saved.check(self.asked <= self.revealed, "asked", "must be at most `revealed`")
        saved.check(self.b_given in (None, self.b), "b", "is not that of the settings")

    def check(self, revealed: int) -> None:
        """`saved.BadState` unless it can be of a model with so many reveals."""
        for name, most in (
            ("revealed", revealed),
            ("b_since", revealed),
            ("weighted_mistakes", self.asked / LEAST),
            ("weighted_squares", self.asked / LEAST / LEAST),
        ):
            saved.check(getattr(self, name) <= most, name, f"must be at most {most}")
