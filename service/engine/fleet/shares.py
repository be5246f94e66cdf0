"""What each tenant has of something that all of them share, and who has to give way when it becomes too much.

There are two rules. Of what can be given up (predictions that wait, models in memory, outcomes, finished jobs), the
tenant that has most gives way first. What cannot be taken away from anybody (streams, answers that wait on disk, fits,
feeds, models on disk) is not given to a tenant that would have more than is left: so one tenant alone leaves half, and
whoever comes next finds room.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


class Tenants:
    """Whose a model is, by its name; "" for models of nobody in particular."""

    def __init__(self, prefixes: Callable[[], Sequence[str]] = lambda: ()) -> None:
        """`prefixes`: with which the names of tenants' models begin, a prefix of another one before it."""
        self._prefixes = prefixes

    @property
    def are_there(self) -> bool:
        return bool(self._prefixes())

    def all(self) -> list[str]:
        """Each of them, but not one whose models are all of another one's as well."""
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
    """How many of something, and what they take."""

    count: int = 0
    bytes: int = 0


NOTHING = Use()


class Shares:
    """How much of one thing there is, of all tenants together and of each."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self.count = 0
        self.bytes = 0
        self.of: dict[str, Use] = {}
        """By tenant, those that have some."""

    def add(self, tenant: str, size: int, count: int = 1) -> None:
        use = self.of.get(tenant)
        if use is None:
            use = self.of[tenant] = Use()
        use.count += count
        use.bytes += size
        self.count += count
        self.bytes += size

    def remove(self, tenant: str, size: int, count: int = 1) -> None:
        use = self.of.get(tenant)
        if use is None:  # it has nothing, and gives nothing back
            return
        use.count -= count
        use.bytes -= size
        self.count -= count
        self.bytes -= size
        if not use.count and not use.bytes:
            del self.of[tenant]

    # Of what can be given up

    def giving_way(self, *, by_bytes: bool) -> Iterator[str]:
        """The tenants with more than an equal share, who has most first. Nobody else has to give anything up.

        >>> shares = Shares(Tenants(lambda: ["a-", "b-"]))
        >>> shares.add("a-", 70), shares.add("b-", 20), shares.add("", 30)
        (None, None, None)
        >>> list(shares.giving_way(by_bytes=True))
        ['a-']
        """
        amounts = {tenant: use.bytes if by_bytes else use.count for tenant, use in self.of.items()}
        equal = sum(amounts.values()) / max(1, len(amounts))
        for tenant in sorted(amounts, key=lambda tenant: amounts[tenant], reverse=True):
            if amounts[tenant] < equal:
                return
            yield tenant

    # Of what cannot be taken away

    def may_take(self, tenant: str, more: int, most: int, *, by_bytes: bool = False) -> bool:
        """Whether a tenant may have so much more, if there may be `most` in all. Without tenants, all may be taken.

        >>> shares = Shares(Tenants(lambda: ["a-", "b-"]))
        >>> shares.add("a-", 0, count=5)
        >>> shares.may_take("a-", 1, 10), shares.may_take("b-", 1, 10), shares.may_take("b-", 1, 5)
        (False, True, False)
        """
        use = self.of.get(tenant, NOTHING)
        free = most - (self.bytes if by_bytes else self.count)
        own = use.bytes if by_bytes else use.count
        return more <= free and (own + more <= free or not self._tenants.are_there)
