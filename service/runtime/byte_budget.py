"""Budgets that tenants share: what each of them uses of one resource, and which of them goes first when it is too much.

There are two rules. Of what can be evicted (pending predictions, models in memory, outcomes, finished jobs), the tenant
that uses most goes first. What cannot be taken back (streams, answers on disk, fits, feeds, models on disk) is refused
to a tenant that would use more than is left: one tenant alone leaves half, and the next one finds room.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.errors import Overloaded


class Tenants:
    """Which tenant a model belongs to, according to its name; "" for a model of no tenant."""

    def __init__(self, prefixes: Callable[[], Sequence[str]] = lambda: ()) -> None:
        """`prefixes`: with which the names of tenants' models begin, a prefix of another one before it."""
        self._prefixes = prefixes

    @property
    def are_there(self) -> bool:
        return bool(self._prefixes())

    def all(self) -> list[str]:
        """Each tenant, without those whose models all belong to another one as well."""
        return [prefix for prefix in self._prefixes() if self.of(prefix) == prefix]

    def of(self, model: str) -> str:
        """The tenant of a model, or of a caller with such a prefix.

        >>> tenants = Tenants(lambda: ["a-", "a-b-", "c-"])
        >>> tenants.of("c-7"), tenants.of("a-b-1"), tenants.of("d")
        ('c-', 'a-', '')
        """
        return next((prefix for prefix in self._prefixes() if model.startswith(prefix)), "")


@dataclass(slots=True)
class Use:
    """How many of something, and how many bytes they take."""

    count: int = 0
    bytes: int = 0


NOTHING = Use()


class Shares:
    """What is in use of one resource, by all tenants together and by each."""

    def __init__(self, tenants: Tenants | None = None) -> None:
        self.tenants = tenants or Tenants()
        self.count = 0
        self.bytes = 0
        self.of: dict[str, Use] = {}
        """By tenant, those that use some."""

    def add(self, tenant: str, size: int = 0, count: int = 1) -> None:
        use = self.of.get(tenant)
        if use is None:
            use = self.of[tenant] = Use()
        use.count += count
        use.bytes += size
        self.count += count
        self.bytes += size

    def remove(self, tenant: str, size: int = 0, count: int = 1) -> None:
        use = self.of.get(tenant)
        if use is None:
            return
        use.count -= count
        use.bytes -= size
        self.count -= count
        self.bytes -= size
        if not use.count and not use.bytes:
            del self.of[tenant]

    def eviction_order(self, *, by_bytes: bool) -> Iterator[str]:
        """The tenants with more than an equal share, the one that uses most first. Nothing of others is evicted.

        >>> shares = Shares(Tenants(lambda: ["a-", "b-"]))
        >>> shares.add("a-", 70), shares.add("b-", 20), shares.add("", 30)
        (None, None, None)
        >>> list(shares.eviction_order(by_bytes=True))
        ['a-']
        """
        amounts = {tenant: use.bytes if by_bytes else use.count for tenant, use in self.of.items()}
        equal = sum(amounts.values()) / max(1, len(amounts))
        for tenant in sorted(amounts, key=lambda tenant: amounts[tenant], reverse=True):
            if amounts[tenant] < equal:
                return
            yield tenant

    def check(self, size: int, tenant: str) -> None:
        """Overloaded if a reservation of so many bytes does not fit."""

    def may_take(self, tenant: str, more: int, most: int, *, by_bytes: bool = False) -> bool:
        """Whether a tenant may have so much more, of `most` in all. Without tenants, all may be taken.

        >>> shares = Shares(Tenants(lambda: ["a-", "b-"]))
        >>> shares.add("a-", 0, count=5)
        >>> shares.may_take("a-", 1, 10), shares.may_take("b-", 1, 10), shares.may_take("b-", 1, 5)
        (False, True, False)
        """
        use = self.of.get(tenant, NOTHING)
        free = most - (self.bytes if by_bytes else self.count)
        own = use.bytes if by_bytes else use.count
        return more <= free and (own + more <= free or not self.tenants.are_there)


class ByteBudget(Shares):
    """Bytes that may be in use at the same time for one purpose.

    `take` and a `Reservation` refuse what does not fit. `add` and `remove` count what cannot be refused, and
    `is_exceeded` says whether something has to be evicted or closed.
    """

    def __init__(self, bytes_max: int, tenants: Tenants | None = None) -> None:
        super().__init__(tenants)
        self.bytes_max = bytes_max

    @property
    def is_exceeded(self) -> bool:
        return self.bytes > self.bytes_max

    @property
    def is_full(self) -> bool:
        return self.bytes >= self.bytes_max

    def take(self, size: int, tenant: str = "") -> bool:
        """Count so many bytes more; False, and nothing is counted, if that is more than is left for this tenant.

        >>> budget = ByteBudget(100)
        >>> budget.take(60), budget.take(60), budget.give_back(60), budget.take(60)
        (True, False, None, True)
        """
        if not self.may_take(tenant, size, self.bytes_max, by_bytes=True):
            return False
        self.add(tenant, size, count=0)
        return True

    def give_back(self, size: int, tenant: str = "") -> None:
        self.remove(tenant, size, count=0)

    def check(self, size: int, tenant: str) -> None:
        # The only reservation is granted, however large it is: else such a model could never be exported.
        if self.count and not self.may_take(tenant, size, self.bytes_max, by_bytes=True):
            raise Overloaded(
                f"{self.bytes} of {self.bytes_max} bytes are in use, and {size} more are needed; try again later"
            )


class Reservation:
    """A place among shares, with some bytes of a budget: until `release`, or until nothing refers to it any more.

    >>> budget = ByteBudget(100)
    >>> first, second = Reservation(budget), Reservation(budget)
    >>> first.take(1_000)
    >>> second.take(1)
    Traceback (most recent call last):
    service.errors.Overloaded: 1000 of 100 bytes are in use, and 1 more are needed; try again later
    >>> first.release(), budget.bytes
    (None, 0)
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._held: tuple[str, int] | None = None

    def take(self, size: int = 0, tenant: str = "") -> None:
        """Hold this, instead of what it held before; Overloaded if it does not fit."""
        self.release()
        self._shares.check(size, tenant)
        self._shares.add(tenant, size)
        self._held = tenant, size

    def release(self) -> None:
        if self._held is not None:
            self._shares.remove(*self._held)
            self._held = None

    __del__ = release
