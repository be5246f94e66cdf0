"""Byte budgets: how many bytes are in use for one purpose, and how many may be."""


class ByteBudget:
    """Bytes that may be in use at the same time for one purpose."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    @property
    def is_exceeded(self) -> bool:
        return self.bytes > self.bytes_max

    def add(self, _tenant: str, size: int, *, count: int) -> None:
        self.bytes += size
