"""Reads and decodes the lines of a stream while earlier ones are being learned, up to a limit."""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from service.engine.decoding import UNDECODABLE, raise_problem
from service.errors import MalformedJson, NovikoffError, Overloaded, kept
from service.runtime.cooperative import Turns
from service.web.http.compression import Inflating, inflated
from service.web.http.requests import Receive
from service.web.problems import HttpError
from service.web.stream.array_lines import AlikeLines, dense_lines
from service.web.stream.line import Line, WholeRounds, decoder, lines_in, together

AHEAD_LINES_MAX = 1_000
AHEAD_BYTES_MAX = 524_288
"""The most lines and bytes that are decoded and not yet learned; then reading stops, and TCP stops the sender. All open
streams share the bytes: one stream needs them to be fast, many have enough to do with less."""

AT_ONCE_BYTES = 65_536
AT_ONCE_BYTES_MIN = 4_096
AT_ONCE_LINES = 1_000
"""How much text is decoded at once, less if many streams are open; and how many lines of it, where each becomes
objects of its own: of short texts and numbers up to sixteen times as large as their text."""

UNTOLD = MalformedJson("the line is not a JSON object")
"""For lines of which it is not told what is wrong with each: to find that out takes ten times as long as to decode."""

Part = list[Line | NovikoffError] | WholeRounds
"""Decoded lines. In the place of a line that cannot be decoded stands the error that answers it."""


class Lines:
    """Decodes the body of a request as it comes; use it as a context and `take` until there is nothing."""

    def __init__(
        self,
        receive: Receive,
        inflating: Inflating | None,
        *,
        line_bytes_max: int,
        errors_max: int,
        streams_open: Callable[[], int],
    ) -> None:
        """`errors_max`: how many lines that cannot be decoded get an error of their own."""
        self._streams_open = streams_open
        self._receive = receive
        self._parts = _body(receive, inflating)
        self._line_bytes_max = line_bytes_max
        self._errors_left = errors_max
        self._alike = AlikeLines()
        self._turns = Turns()
        self._is_skipping = False  # the rest of a line that was too long
        self._waiting: list[Part] = []
        self._waiting_bytes = 0
        self._waiting_lines = 0
        self._came = asyncio.Event()
        self._taken = asyncio.Event()

    async def __aenter__(self) -> "Lines":
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._came.set())
        # A client that sends `Expect: 100-continue` is asked to go on when the body is read, which it has to be
        # before the answer begins.
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def take(self, unless: Future[Any] | None = None) -> Part | None:
        """All lines decoded so far, at least one; an empty list after the last line.

        None if `unless` is done before a line comes.
        """
        if unless is not None:
            unless.add_done_callback(lambda _: self._came.set())
        while not self._waiting and not self._reading.done():
            if unless is not None and unless.done():
                return None
            self._came.clear()
            await self._came.wait()
        if not self._waiting:
            self._reading.result()  # raises what ended it, if something did
        parts, self._waiting, self._waiting_bytes, self._waiting_lines = self._waiting, [], 0, 0
        self._taken.set()
        return _as_one(parts)

    def stop(self, error: NovikoffError) -> None:
        """Read no more; after the lines that were decoded already comes this error."""
        self._reading.cancel()
        self._waiting.append([error])
        self._came.set()

    async def drop(self, bytes_max: int) -> None:
        """Read and ignore the rest of the body, so that a client that sends everything first gets to reading."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        dropped, more = 0, True
        with suppress(Overloaded):
            while more and dropped < bytes_max:
                message = await self._receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
                dropped += len(message.get("body", b""))

    async def _read(self) -> None:
        rest = b""
        try:
            async for data in self._parts:
                rest = await self._read_part(rest, data)
        except (HttpError, Overloaded) as error:
            # Gzip that is damaged, or no room for the rest of a short body: told in its place, without the line there.
            await self._put([error], 0)
        else:
            await self._add(rest)

    async def _read_part(self, rest: bytes, data: bytes) -> bytes:
        """Decode the lines that end in this part; returns the beginning of the line that does not."""
        self._turns.restart()
        whole, newline, tail = data.rpartition(b"\n")
        if not newline:
            rest = rest + data if not self._is_skipping else b""
        else:
            if self._is_skipping:
                whole = whole.partition(b"\n")[2]
                self._is_skipping = False
            await self._add(rest + whole)
            rest = tail
        if len(rest) > self._line_bytes_max:
            self._is_skipping = True
            await self._put([_too_long(self._line_bytes_max)], 0)
            return b""
        return rest

    async def _add(self, data: bytes) -> None:
        """Decode whole lines, some at a time; one by one only if they are not all good."""
        start = 0
        at_once = min(AT_ONCE_BYTES, max(AT_ONCE_BYTES_MIN, AHEAD_BYTES_MAX // self._streams_open()))
        while start < len(data):
            end = data.rfind(b"\n", start, start + at_once) if len(data) - start > at_once else -1
            if end < 0:
                end = len(data)
            await self._decode(data[start:end])
            start = end + 1

    async def _decode(self, data: bytes) -> None:
        rounds = dense_lines(data) or self._alike.read(data) if len(data) <= self._line_bytes_max else None
        if rounds is not None:
            await self._put(rounds, len(data))
        elif not data.isspace():
            for some in _by_lines(data, AT_ONCE_LINES):
                await self._put(await self._lines_of(some), len(some))
                await self._turns.give()
        await self._turns.give()

    async def _lines_of(self, data: bytes) -> Part:
        if len(data) <= self._line_bytes_max:
            lines = _decoded_at_once(data)
            if lines:
                self._alike.expect(lines)
                return [*lines]
        one_by_one: list[Line | NovikoffError] = []
        for line in data.split(b"\n"):
            if line.strip():
                one_by_one.append(self._decoded(line))
                await self._turns.give()  # to say what is wrong with a line takes long
        return one_by_one

    async def _put(self, part: Part, size: int) -> None:
        """Add decoded lines for `take`, then wait until fewer than the most are waiting."""
        if part:
            self._waiting.append(part)
            self._waiting_lines += len(part)
            # As objects, lines take about twice their text.
            self._waiting_bytes += part.rows.values.nbytes if isinstance(part, WholeRounds) else 2 * size
            self._came.set()
        while self._is_far_ahead():
            self._taken.clear()
            await self._taken.wait()
            self._turns.restart()

    def _is_far_ahead(self) -> bool:
        bytes_max = AHEAD_BYTES_MAX // self._streams_open()
        return self._waiting_lines >= AHEAD_LINES_MAX or self._waiting_bytes >= bytes_max

    def _decoded(self, line: bytes) -> Line | NovikoffError:
        if len(line) > self._line_bytes_max:
            return _too_long(self._line_bytes_max)
        try:
            return decoder.decode(line)
        except UNDECODABLE as error:
            if self._errors_left <= 0:
                return UNTOLD
            self._errors_left -= 1
            try:
                raise_problem(error, Line)
            except NovikoffError as problem:
                return kept(problem)


def _as_one(parts: list[Part]) -> Part:
    """Parts joined: as one array if all of them are arrays of the same model and features, else as a list of lines."""
    rounds = [part for part in parts if isinstance(part, WholeRounds)]
    if rounds and len(rounds) == len(parts) and (whole := together(rounds)) is not None:
        return whole
    return [line for part in parts for line in (part.lines() if isinstance(part, WholeRounds) else part)]


def _decoded_at_once(data: bytes) -> list[Line] | None:
    """The lines if all are good. They are counted because the decoder also takes values that end amid a line."""
    try:
        lines = decoder.decode_lines(data)
    except UNDECODABLE:
        return None
    return lines if lines_in(data) == len(lines) else None


def _by_lines(data: bytes, lines_max: int) -> Iterator[bytes]:
    """The same in pieces of at most so many lines.

    >>> list(_by_lines(b"a\\nb\\nc", 2)), list(_by_lines(b"a\\nb", 2))
    ([b'a\\nb', b'c'], [b'a\\nb'])
    """
    start = 0
    if lines_in(data) > lines_max:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        for end in ends[lines_max - 1 :: lines_max].tolist():
            yield data[start:end]
            start = end + 1
    if start < len(data):
        yield data[start:]


def _too_long(line_bytes_max: int) -> HttpError:
    return HttpError("body-too-large", f"the line exceeds {line_bytes_max} bytes (`line_bytes_max`)")


async def _body(receive: Receive, inflating: Inflating | None) -> AsyncIterator[bytes]:
    """The parts of the body as they come, inflated if they are deflated, never much at once."""
    pieces = _pieces(receive)
    async for part in pieces if inflating is None else inflated(pieces, inflating):
        yield part


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
        if data := message.get("body", b""):
            yield data
