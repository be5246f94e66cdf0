"""The service that a command talks to: a running one, or one started within this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from novikoff import AsyncClient
from service.app import create_app
from service.settings import load_settings


@asynccontextmanager
async def connected(url: str | None, key: str | None, data: Path | None) -> AsyncIterator[AsyncClient]:
    """A client of the service at `url`; without one, of the whole service run here on `data`.

    Without `data` either, it runs in a temporary directory that is removed in the end.
    """
    if url is not None:
        async with AsyncClient(url, key=key) as client:
            yield client
    elif data is not None:
        async with _own_service(data, durability=None) as client:
            yield client
    else:
        with TemporaryDirectory(prefix="novikoff-") as directory:
            async with _own_service(Path(directory), durability="process") as client:
                yield client


@asynccontextmanager
async def _own_service(data: Path, *, durability: str | None) -> AsyncIterator[AsyncClient]:
    # Its requests are no client's: they leave no spans.
    settings = load_settings(data=data, durability=durability, otlp_endpoint="")
    app = create_app(settings, guarded=False)
    async with (
        app.router.lifespan_context(app),  # the transport would not run it
        AsyncClient("http://in-process", transport=httpx.ASGITransport(app)) as client,
    ):
        yield client
