"""What every transform of vectors promises; `standardize`, `normalize` and `fourier` are such."""

from typing import Any, Protocol

from service.learning.vectors import Vector


class Transform(Protocol):
    """Makes one vector of another. Only `absorb` changes anything."""

    def apply(self, x: Vector) -> Vector: ...

    def absorb(self, x: Vector) -> None:
        """Take in what a revealed example teaches, before it is applied to it."""
        ...

    def size(self, size: int) -> int:
        """How many entries come out where `size` go in."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...
