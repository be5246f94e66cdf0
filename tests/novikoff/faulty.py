"""A proxy before a real service that fails as networks do: on purpose, and in a stated order."""

import ssl
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.service_process import ANSWER_SECONDS, NO_TLS, Service


class FaultyProxy:
    """Passes requests on, also such as are sent to a forward proxy. Each fault of `faults` befalls one, in turn:

    - `none`: it is passed on, and so are all requests after the last fault
    - `lost`: the service gets the request, the client never gets the answer
    - `refused`: the connection breaks before the service gets it
    - `cut short`: a whole answer by the rules of HTTP, but with three lines only
    - `cut amid a line`: the same, and half of the fourth
    - `busy`: 503 with `Retry-After: 1`, as from an overloaded service
    - `another program`: 200 with JSON that the service would never send
    - `bad encoding`: 200 with a content that is said to be gzip, and is not
    - `bad gateway`: 502 with a page of HTML, as from a proxy whose service restarts
    """

    def __init__(self, service: Service, *faults: str, tls: ssl.SSLContext | None = None) -> None:
        self.faults = deque(faults)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.connections: set[object] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                proxy.connections.add(self.client_address)
                proxy.seen.append((f"{self.command} {self.path}", dict(self.headers)))
                fault = proxy.faults.popleft() if proxy.faults else "none"
                if fault == "busy":
                    self._answer(503, b"{}", {"retry-after": "1"})
                elif fault == "another program":
                    self._answer(200, b"[1, 2, 3]", {})
                elif fault == "bad encoding":
                    self._answer(200, b"{}", {"content-encoding": "gzip"})
                elif fault == "bad gateway":
                    self._answer(502, b"<h1>Bad gateway</h1>", {})
                elif fault == "refused":
                    self.close_connection = True
                else:
                    headers = {"content-type": self.headers["content-type"]} if body else {}
                    # A busy machine may take longer than httpx waits by itself, which would be a fault of its own.
                    passed = httpx.request(
                        self.command,
                        httpx.URL(service.url).join(httpx.URL(self.path).raw_path.decode()),
                        content=body,
                        headers=headers,
                        timeout=ANSWER_SECONDS,
                        verify=NO_TLS,
                        trust_env=False,
                    )
                    if fault == "lost":
                        self.close_connection = True
                    else:
                        kept = {k: v for k, v in passed.headers.items() if k != "transfer-encoding"}
                        self._answer(passed.status_code, _cut(passed.content, fault), kept)

            do_GET = do_POST = do_PUT = do_DELETE = handle_one  # noqa: N815

            def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _cut(content: bytes, fault: str) -> bytes:
    if not fault.startswith("cut"):
        return content
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:3]) + (lines[3][: len(lines[3]) // 2] if fault == "cut amid a line" else b"")
