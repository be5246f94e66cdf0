"""A network that a test can cut or slow down: a TCP proxy between a client and a server."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.support.waiting import PATIENCE_SECONDS

T = TypeVar("T")

CHUNK_BYTES = 65_536


class TcpProxy:
    """Passes bytes on while it is not cut; a cut is silent, as real ones are.

    What a method does is done when it returns.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.bytes_a_second: float | None = None
        """How fast bytes come from the server; None: as fast as they can."""
        self.lost: bytes | None = None
        """What clients have sent in vain; None: what they send arrives."""

    def start(self) -> "TcpProxy":
        self._thread.start()
        self.port = self._run(self._listen())
        return self

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop of the proxy, to its end."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_SECONDS)

    async def _listen(self) -> int:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await self._open.wait()
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except asyncio.CancelledError:
            writer.close()
            raise
        except OSError:  # the server is down
            writer.close()
            return
        for source, target, slow in ((reader, server_writer, False), (server_reader, writer, True)):
            task = asyncio.create_task(self._pass_on(source, target, slow))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: StreamReader, target: StreamWriter, slow: bool) -> None:
        try:
            while True:
                limit = self.bytes_a_second if slow else None
                data = await source.read(CHUNK_BYTES if limit is None else max(1, int(limit / 20)))
                await self._open.wait()
                if not data:
                    break
                if self.lost is not None and not slow:
                    self.lost += data
                    continue
                target.write(data)
                await target.drain()
                if limit is not None:
                    await asyncio.sleep(len(data) / limit)
        except OSError:
            pass
        finally:
            target.close()

    def cut(self) -> None:
        async def cut() -> None:
            self._open.clear()

        self._run(cut())

    def lose(self) -> None:
        """Let what clients send go astray until the connections are broken off."""
        self.lost = b""

    def break_off(self) -> None:
        """End the connections that there are."""

        async def end() -> None:
            await self._end_connections()
            self.lost = None

        self._run(end())

    def heal(self) -> None:
        async def heal() -> None:
            self._open.set()

        self._run(heal())

    def close(self) -> None:
        async def end() -> None:
            self._listener.close()
            others = asyncio.all_tasks() - {
                asyncio.current_task()
            }  # also those that wait for the end of a cut
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    async def _end_connections(self) -> None:
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
