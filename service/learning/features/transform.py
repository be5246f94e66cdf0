"""What every transform of vectors promises; `standardize`, `normalize` and `fourier` are such."""

from typing import Any, Protocol

from service.learning.vectors import Vector


class Transform(Protocol):
    """Makes one vector of another, before the bias constant is added. Only `absorb` changes anything."""

    def apply(self, x: Vector) -> Vector:
        """The transformed vector, by what was absorbed so far; called for every prediction and every reveal."""
        ...

    def absorb(self, x: Vector) -> None:
        """Take in what a revealed example teaches, before it is applied to it."""
        ...

    def size(self, size: int) -> int:
        """How many entries come out where `size` go in."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, beyond the settings; empty if nothing is absorbed."""
        ...

    def restore(self, state: Any, size: int) -> None:
        """Become what `state` was taken from, to the bit; `saved.BadState` unless it is one for `size` entries."""
        ...
