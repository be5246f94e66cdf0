"""/docs: FastAPI's page for the OpenAPI document, under a policy that lets nothing else run."""

import base64
import hashlib
import re

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from service.web.access.declarations import access
from service.web.access.keys import Role

SCRIPTS = "https://cdn.jsdelivr.net"
"""Where the page loads its scripts from."""


def router(title: str) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    page = get_swagger_ui_html(
        openapi_url="openapi.json", title=title, swagger_favicon_url="favicon.ico"
    ).body
    own = re.findall(rb"<script>(.*?)</script>", bytes(page), re.DOTALL)
    headers = {"content-security-policy": policy(own), "cache-control": "no-cache"}

    @routes.api_route("/docs", methods=["GET", "HEAD"])
    @access(Role.OPEN)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    return routes


def policy(scripts: list[bytes]) -> str:
    """A policy under which just these scripts run, and those that the page loads."""
    hashes = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src", SCRIPTS, *(f"'sha256-{each}'" for each in hashes))),
            f"style-src {SCRIPTS} 'unsafe-inline'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
