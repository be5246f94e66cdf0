"""What every way from learners to classes promises."""

from typing import Any, Protocol

from service.learning.vectors import Array, Vector


class Classifier(Protocol):
    """Puts vectors into classes, which are numbered in the order in which they were declared or seen."""

    @property
    def updates(self) -> int: ...

    def decide(self, z: Vector) -> tuple[int, float]:
        """The class of z, and the score it was chosen by; changes nothing. -1 while no class is known."""
        ...

    def learn(self, z: Vector, truth: int, served: int) -> bool:
        """Learn that z belongs to class `truth` when `served` was answered; True if weights changed."""
        ...

    def grow(self, size: int) -> None:
        """Make room for `size` weights in every learner."""
        ...

    def add_class(self) -> None:
        """One more class, which starts from zero; nothing else changes."""
        ...

    def weights_for(self, chosen: int) -> Array:
        """The weights whose product with z is the score of the chosen class (for two: of the second)."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...
