"""Copies of large models, from which answers are made as clients take them: a budget in bytes.

A client may take its time, and the copy is there as long as that; without a limit, few clients that read nothing would
fill the memory with copies of one model.
"""

from collections.abc import Callable

from service.engine.fleet.large_models import is_large
from service.engine.fleet.shares import Shares, Tenants
from service.engine.models.model import Model
from service.engine.models.sizes import numbers_kept
from service.errors import Overloaded

NUMBER_BYTES = 8

FEW_NUMBERS = 16_384
"""So many weights are answered at once; of more, the text is made as it is sent."""


class Copy:
    """Room for one copy. Given back at the end of the answer, or when nobody refers to it."""

    def __init__(self, used: Shares, tenant: str, size_bytes: int) -> None:
        self._used: Shares | None = used
        self._tenant = tenant
        self._size_bytes = size_bytes
        used.add(tenant, size_bytes)

    def give_back(self) -> None:
        if self._used is not None:
            self._used.remove(self._tenant, self._size_bytes)
            self._used = None

    __del__ = give_back


class Room:
    """Room for the copy of a model that is not known yet; of one that is not large none is needed."""

    def __init__(self, take: Callable[[Model], Copy | None]) -> None:
        self._take = take
        self._copy: Copy | None = None

    def take(self, model: Model) -> None:
        """Overloaded if there is too little. If it was taken before, for another model, that is given back."""
        self.give_back()
        self._copy = self._take(model)

    def give_back(self) -> None:
        if self._copy is not None:
            self._copy.give_back()
            self._copy = None


class Copies:
    """How many bytes of copies there are, and may be. If there is none, one may be made however large it is."""

    def __init__(self, bytes_max: int, tenants: Tenants) -> None:
        self.bytes_max = bytes_max
        self._tenants = tenants
        self._used = Shares(tenants)

    @property
    def used_bytes(self) -> int:
        return self._used.bytes

    def of_all(self, model: Model) -> Copy | None:
        """Room for all that a model is, if it is large; Overloaded if there is too little."""
        if not is_large(model):
            return None
        classes = len(model.labels.values)
        return self._take(
            model, sum(numbers_kept(one, features.size(), classes) for one, features in model.learners())
        )

    def of_weights(self, model: Model) -> Copy | None:
        """Room for a row of weights for each class, if they are many; Overloaded if there is too little."""
        numbers = model.features.size() * max(1, len(model.labels.values))
        return self._take(model, numbers) if numbers > FEW_NUMBERS else None

    def _take(self, model: Model, numbers: int) -> Copy:
        tenant, size_bytes = self._tenants.of(model.name), NUMBER_BYTES * numbers
        may_take = self._used.may_take(tenant, size_bytes, self.bytes_max, by_bytes=True)
        if self._used.count and not may_take:
            raise Overloaded(
                f"{self._used.count} copies of models are being answered with, and one of this model needs"
                f" {size_bytes} bytes; try again later"
            )
        return Copy(self._used, tenant, size_bytes)
