"""Passive-aggressive learners: the smallest change that gives an example the margin 1, or part of it.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms, JMLR 7, 2006.
The bias constant is an entry of z like any other, so it counts in ‖z‖².
"""

from collections.abc import Callable

from service.learning.learners.linear import Linear
from service.learning.vectors import NEGLIGIBLE, Vector


def pa_step(loss: float, norm_sq: float) -> float:
    """The step that removes the whole loss.

    >>> pa_step(1.0, 4.0)
    0.25
    """
    return loss / norm_sq


def pa1_step(loss: float, norm_sq: float, *, C: float) -> float:
    """The step that removes the loss, at most C.

    >>> pa1_step(1.0, 4.0, C=0.1)
    0.1
    """
    return min(C, loss / norm_sq)


def pa2_step(loss: float, norm_sq: float, *, C: float) -> float:
    """The step that removes the loss in part, the less the smaller C is.

    >>> pa2_step(1.0, 4.0, C=0.125)
    0.125
    """
    return loss / (norm_sq + 0.5 / C)


class PassiveAggressive(Linear):
    """w += τ y z while the loss max(0, 1 - y w·z) is above 0; the zero vector teaches nothing.

    Even without a C the weights cannot run away: the whole step leaves the part of w across z as it is and
    sets the part along z to 1/‖z‖, so that ‖w‖² grows by at most 1/‖z‖².
    """

    __slots__ = ("_step",)

    idle_margin = 1.0

    def __init__(self, step: Callable[[float, float], float]) -> None:
        super().__init__()
        self._step = step

    def learn(self, z: Vector, y: int, served: int | None) -> bool:
        loss = 1.0 - y * self.score(z)
        if loss <= 0:
            return False
        norm_sq = z.norm_sq()
        if norm_sq < NEGLIGIBLE:
            return False
        self.updates += 1
        z.add_to(self._weights, y * self._step(loss, norm_sq))
        return True
