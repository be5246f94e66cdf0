"""Ctrl-C ends a replay in order: the round under way is finished, and the summary is printed."""

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Self, TypeVar

T = TypeVar("T")


class Interrupt:
    """While it is in force, the first Ctrl-C sets `is_set`, and a second one ends the program."""

    def __init__(self) -> None:
        self.is_set = False
        self._is_reading = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def reading(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; Ctrl-C ends them even while the next is being waited for."""
        try:
            while not self.is_set:
                self._is_reading = True
                item = next(items, None)
                self._is_reading = False
                if item is None:
                    return
                yield item
        except _Broken:
            return

    def _on_sigint(self, _: int, __: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        if self._is_reading:
            self._is_reading = False
            raise _Broken


class _Broken(BaseException):
    """Raised by the signal handler to interrupt a read that waits for input."""
