"""What the service keeps for its connections, in bytes: requests until they are answered, answers until they are
taken."""

FREE_BYTES = 16_384
"""A connection may hold so much whatever the others hold, so that short requests are always served."""

FULL = "the service holds as many bytes for its clients as it may; try again later"


class HeldBytes:
    """Counts what all connections hold together."""

    def __init__(self, *, connection_bytes_max: int, connections_bytes_max: int) -> None:
        self.connection_bytes_max = connection_bytes_max
        self.connections_bytes_max = connections_bytes_max
        self.total = 0

    def are_too_many(self, of_one: int) -> bool:
        """Whether a connection that holds so many must not hold more, since all together hold too many.

        >>> held = HeldBytes(connection_bytes_max=65_536, connections_bytes_max=1_000_000)
        >>> held.total = 1_000_001
        >>> held.are_too_many(10_000), held.are_too_many(20_000)
        (False, True)
        """
        return self.total > self.connections_bytes_max and of_one > FREE_BYTES
