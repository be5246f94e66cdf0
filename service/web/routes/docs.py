"""/docs: Swagger UI for the OpenAPI document, its files from a package, under a policy that lets nothing else run."""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.http.responses import etag_of, unless_known
from service.web.problems import HttpError

ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
"""What the page loads, all from here: who can change a script on this origin can read the keys that are typed in."""


def router(title: str) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=title,
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="favicon.ico",
    ).body
    own = re.findall(rb"<script>(.*?)</script>", bytes(page), re.DOTALL)
    headers = {"content-security-policy": policy(own), "cache-control": "no-cache"}

    @routes.api_route("/docs", methods=["GET", "HEAD"])
    @access(Role.OPEN)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    @routes.api_route("/docs/{asset}", methods=["GET", "HEAD"])
    @access(Role.OPEN)
    async def asset_of(asset: str, request: Request) -> Response:
        if asset not in ASSETS:
            raise HttpError("not-found", "the page has no such file")
        content = (files("fastapi_offline") / "static" / asset).read_bytes()  # seldom asked for, so not kept
        kept = {"cache-control": "no-cache", "content-type": ASSETS[asset]}
        return unless_known(content, etag_of(content), request.headers.get("if-none-match"), kept)

    return routes


def policy(scripts: list[bytes]) -> str:
    """A policy under which just these scripts run, and those of this origin."""
    hashes = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src 'self'", *(f"'sha256-{each}'" for each in hashes))),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
