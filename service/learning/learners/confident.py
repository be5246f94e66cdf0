"""What AROW and SCW share: a variance for each weight, by which uncertain weights are moved more."""

from typing import Any

from service.learning import saved
from service.learning.learners.covariance import Covariance, Diagonal, Full, Spread
from service.learning.learners.linear import MOVE_MAX, Linear
from service.learning.vectors import Array, Vector


class Confident(Linear):
    """Weights with a covariance; AROW and SCW differ in when they move and how far."""

    __slots__ = ("_covariance", "_shape")

    def __init__(self, shape: str) -> None:
        super().__init__()
        self._shape = shape
        self._covariance = self._new_covariance()

    def _new_covariance(self) -> Covariance:
        return Full() if self._shape == "full" else Diagonal()

    @property
    def has_variances(self) -> bool:
        """Whether its covariance is a diagonal."""
        return self._shape != "full"

    @property
    def variances(self) -> Array:
        """The diagonal of its covariance, if it has no more, to be read and written."""
        assert isinstance(self._covariance, Diagonal)
        return self._covariance.variances

    def step(self, margin: float, variance: float, weight: float) -> tuple[float, float]:
        """α and β for an example with the margin y w·z and the variance zᵀΣz, which is not 0; no α, no step."""
        raise NotImplementedError

    def _move(self, z: Vector, spread: Spread, alpha: float, beta: float) -> bool:
        """w += α Σz and Σ -= β (Σz)(Σz)ᵀ."""
        if abs(alpha) * spread.reach > MOVE_MAX:
            return False
        self.updates += 1
        Vector(spread.direction, spread.indices).add_to(self._weights, alpha)
        self._covariance.shrink(z, spread, beta)
        return True

    def grow(self, size: int, row: Array | None = None) -> None:
        super().grow(size, row)
        self._covariance.grow(size)

    def start_from(self, weights: Array) -> None:
        super().start_from(weights)
        self._covariance = self._new_covariance()
        self._covariance.grow(len(weights))

    def state(self) -> dict[str, Any]:
        return {**super().state(), "covariance": self._covariance.state()}

    def restore(self, state: Any, size: int) -> None:
        weights, updates, covariance = saved.fields(state, "weights", "updates", "covariance")
        self._restore(weights, updates, size)
        self._covariance.restore(covariance, size)
