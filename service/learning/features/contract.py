"""What every kind of features promises: from what a client sent to a vector, into the journal and back."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from service.learning.vectors import Indices, Rows, Vector, Vectors


class BadFeatures(ValueError):
    """Features that do not fit the model; `field` says where, as in `features[3]`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Features(Protocol):
    """Turns a client's features into a vector.

    `read` makes the one canonical form of an example that everything else takes, so that what was predicted, what is
    journaled and what is learned are the same thing. Only `absorb` changes anything, and only a revealed
    example is absorbed.

    A prediction calls `read`, `vector` and `encode`; its reveal calls `decode`, `absorb` and `vector`. A block of whole
    rounds calls `read_rows` and `vectors` for many examples at once. Both ways must agree to the bit, since a replay
    may take the other one. `kinds.build` makes features from a model's settings.
    """

    dimension: int | None
    """How many numbers an example has; None until the first one fixes it, 0 for features with names.

    The engine sets it once, when a model without a declared dimension gets its first example.
    """

    @property
    def is_fixed(self) -> bool:
        """Whether examples teach nothing about the features: absorbing one changes no vector.

        Then a whole round uses the vector of its prediction for learning too, and `absorb` is not called.
        """
        ...

    @property
    def learns_as_served(self) -> bool:
        """Whether a prediction has the score of the vector that its reveal learns, by the weights of then.

        A name that is new with the reveal is left out of the prediction: it must change neither another value nor a
        weight that is not 0.
        """
        ...

    @property
    def ignored_names(self) -> int:
        """How often a name of a revealed example was ignored because the dictionary is full."""
        ...

    def read(self, sent: Any) -> Any:
        """The canonical form of what a client sent, decoded JSON; BadFeatures if it does not fit."""
        ...

    def encode(self, example: Any) -> Any:
        """The canonical form as the journal keeps it: bytes, or plain dicts, lists, numbers and strings."""
        ...

    def decode(self, stored: Any) -> Any:
        """The canonical form again, from what `encode` gave; also of events written by older versions."""
        ...

    def vector(self, example: Any) -> Vector:
        """z, the bias constant included, by what is known now. A name that is not known yet is left out."""
        ...

    def absorb(self, example: Any) -> Indices | None:
        """Take in what a revealed example teaches about the features themselves (names, means).

        Where entries of z began a new scale, their places: how sure a learner is of their weights counts no more.

        Called once for every reveal, before its vector is made for learning; `size` may be larger afterwards.
        """
        ...

    def read_rows(self, sent: Sequence[Any] | Rows) -> list[Rows] | None:
        """Many examples at once, as `read` would read each; None leaves them to `read`, one by one.

        It is None if one does not fit, so that `read` says which and why. `sent` is what clients sent, or a table of
        numbers none of which is beyond `vectors.LARGEST`, its names in any order.
        """
        ...

    def rows_of(self, examples: Sequence[Any]) -> list[Rows]:
        """Canonical examples as rows, in their order."""
        ...

    def examples_in(self, rows: Rows) -> Iterable[Any]:
        """The canonical examples that are these rows, in their order: the inverse of `rows_of`."""
        ...

    def vectors(self, rows: Rows) -> Vectors | None:
        """z of each row as `vector` gives it, to the bit; None if absorbing one might change the next one's.

        Where it is None, the engine learns a few rounds one by one and asks again.
        """
        ...

    def size(self) -> int:
        """How many weights a learner needs for the vectors made now, the bias included; 0 if not yet known."""
        ...

    def name(self, index: int) -> int | str:
        """What to call the weight at `index`: a position, a name, or "bias"."""
        ...

    def names_in(self, example: Any) -> dict[int, str]:
        """The names in this example by their index, for features that do not keep all names."""
        ...

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, beyond the settings: numbers, strings, lists and arrays."""
        ...

    def restore(self, state: Any) -> None:
        """Become what `state` was taken from, to the bit. The settings are the same as then.

        `saved.BadState` unless features with these settings can have it: see `service/learning/saved.py`.
        """
        ...
