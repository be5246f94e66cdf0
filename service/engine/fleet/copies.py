"""Copies of large models, from which answers are made as clients take them: a budget in bytes.

A client may take its time, and the copy is there as long as that; without a limit, few clients that read nothing would
fill the memory with copies of one model.
"""

from service.engine.fleet.shares import Shares, Tenants
from service.engine.model.model import Model
from service.engine.model.sizes import numbers_kept
from service.errors import Overloaded

NUMBER_BYTES = 8


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


class Copies:
    """How many bytes of copies there are, and may be. If there is none, one may be made however large it is."""

    def __init__(self, bytes_max: int, tenants: Tenants) -> None:
        self.bytes_max = bytes_max
        self._tenants = tenants
        self._used = Shares(tenants)

    @property
    def used_bytes(self) -> int:
        return self._used.bytes

    def of_all(self, model: Model) -> Copy:
        """Room for all that a model is; Overloaded if there is too little."""
        classes = len(model.labels.values)
        return self._take(
            model, sum(numbers_kept(one, features.size(), classes) for one, features in model.learners())
        )

    def of_weights(self, model: Model) -> Copy:
        """Room for a row of weights for each class; Overloaded if there is too little."""
        return self._take(model, model.features.size() * max(1, len(model.labels.values)))

    def _take(self, model: Model, numbers: int) -> Copy:
        tenant, size_bytes = self._tenants.of(model.name), NUMBER_BYTES * numbers
        may_take = self._used.may_take(tenant, size_bytes, self.bytes_max, by_bytes=True)
        if self._used.count and not may_take:
            raise Overloaded(
                f"{self._used.count} copies of models are being answered with, and one of this model needs"
                f" {size_bytes} bytes; try again later"
            )
        return Copy(self._used, tenant, size_bytes)
