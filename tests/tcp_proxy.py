"""A network that a test can cut or slow down: a TCP proxy between a client and a server."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter

CHUNK_BYTES = 65_536


class TcpProxy:
    """Passes bytes on while it is not cut; a cut is silent, as real ones are."""

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
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self.port = listening.result(10)
        return self

    async def _listen(self) -> int:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        await self._open.wait()
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
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
        self._loop.call_soon_threadsafe(self._open.clear)

    def lose(self) -> None:
        """Let what clients send go astray until the connections are broken off."""
        self.lost = b""

    def break_off(self) -> None:
        """End the connections that there are."""

        def end() -> None:
            for task in self._tasks:
                task.cancel()
            self.lost = None

        self._loop.call_soon_threadsafe(end)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def close(self) -> None:
        async def end() -> None:
            self._listener.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
