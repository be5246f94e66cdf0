"""What every kind of features promises: from what a client sent to a vector, into the journal and back."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from service.learning.vectors import Rows, Vector, Vectors


class BadFeatures(ValueError):
    """Features that do not fit the model; `field` says where, as in `features[3]`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Features(Protocol):
    """The way from a client's features to a vector.

    `read` makes the one canonical form that everything else takes, so that what was predicted, what is
    journaled and what is learned are the same thing. Only `absorb` changes anything, and only a revealed
    example is absorbed.
    """

    dimension: int | None
    """How many numbers an example has; None until the first one fixes it, 0 where that has no meaning."""

    @property
    def is_fixed(self) -> bool:
        """Whether examples teach nothing about the features: absorbing one changes no vector."""
        ...

    @property
    def ignored_names(self) -> int:
        """How often a name of a revealed example was ignored because the dictionary is full."""
        ...

    def read(self, sent: Any) -> Any:
        """The canonical form of what a client sent; BadFeatures if it does not fit."""
        ...

    def encode(self, example: Any) -> Any:
        """The canonical form as the journal keeps it: bytes, or plain dicts, lists, numbers and strings."""
        ...

    def decode(self, stored: Any) -> Any: ...

    def vector(self, example: Any) -> Vector:
        """z, the bias constant included, by what is known now."""
        ...

    def absorb(self, example: Any) -> None:
        """Take in what a revealed example teaches about the features themselves (names, means)."""
        ...

    def read_rows(self, sent: Sequence[Any] | Rows) -> list[Rows] | None:
        """Many examples at once, as `read` would read each; None if one does not fit, or for `read` to try.

        Rows that were sent have moderate numbers only, and their names in any order.
        """
        ...

    def rows_of(self, examples: Sequence[Any]) -> list[Rows]:
        """Canonical examples as rows, in their order."""
        ...

    def examples_in(self, rows: Rows) -> Iterable[Any]:
        """The canonical examples that are these rows."""
        ...

    def vectors(self, rows: Rows) -> Vectors | None:
        """z of each row as `vector` gives it; None if absorbing one might change the next one's."""
        ...

    def size(self) -> int:
        """How many weights a learner needs for the vectors made now."""
        ...

    def name(self, index: int) -> int | str:
        """What to call the weight at `index`: a position, a name, or "bias"."""
        ...

    def names_in(self, example: Any) -> dict[int, str]:
        """The names in this example by their index, for features that do not keep all names."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...
