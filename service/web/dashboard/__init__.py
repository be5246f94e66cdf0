"""`/`: the page for people. Plain files, read once; the content security policy allows no other scripts.

views/ is what the address chooses: the fleet, a model, the inbox. A model is shown by cards/, these draw charts/.
lib/ is what all share and knows none of them.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.http.responses import etag_of, unless_known
from service.web.problems import HttpError

FILES = Path(__file__).parent
INDEX = "index.html"

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # A name can never become markup: the browser itself refuses innerHTML and the like.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS = {
    "cache-control": "no-cache",  # kept by the browser, and asked about by ETag
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


def read_files() -> dict[str, File]:
    """All files of the page by their path.

    >>> read_files()["css/page.css"].media_type
    'text/css; charset=utf-8'
    """
    files = {}
    for path in sorted(FILES.rglob("*")):
        if path.suffix in MEDIA_TYPES:
            content = path.read_bytes()
            name = path.relative_to(FILES).as_posix()
            files[name] = File(content, MEDIA_TYPES[path.suffix], etag_of(content))
    return files


def router() -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    files = read_files()

    @routes.api_route("/", methods=["GET", "HEAD"])
    @access(Role.OPEN)
    async def index(request: Request) -> Response:
        return answer(files[INDEX], request.headers.get("if-none-match"))

    @routes.api_route("/favicon.ico", methods=["GET", "HEAD"])
    @access(Role.OPEN)
    async def favicon(request: Request) -> Response:
        """Browsers ask for it on their own, on /docs for one."""
        return answer(files["favicon.svg"], request.headers.get("if-none-match"))

    # A route for each folder: `{folder}` would take `/dashboard/../stats`, too.
    for folder in sorted({path[: path.rfind("/") + 1] for path in files}):
        routes.add_api_route(
            f"/dashboard/{folder}{{name}}", _in_folder(folder, files), methods=["GET", "HEAD"]
        )
    return routes


def _in_folder(folder: str, files: dict[str, File]) -> Callable[[str, Request], Awaitable[Response]]:
    @access(Role.OPEN)
    async def file(name: str, request: Request) -> Response:
        if folder + name not in files:
            raise HttpError("not-found", "Unknown file of the page.")
        return answer(files[folder + name], request.headers.get("if-none-match"))

    return file


def answer(file: File, if_none_match: str | None) -> Response:
    """The file, or 304 if the browser has it already."""
    return unless_known(file.content, file.etag, if_none_match, {**HEADERS, "content-type": file.media_type})
