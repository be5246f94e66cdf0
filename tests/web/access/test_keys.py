"""API keys: who gets in, as what; how keys come and go; and that nobody is told one."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.settings import Settings
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.dashboard import read_files
from tests.support.api_keys import Holder, assert_no_secret_in, good, lines_of, refusal
from tests.support.markdown import ROOT, rows_of, section
from tests.support.service_process import NO_TLS, Service
from tests.support.service_thread import ServiceThread
from tests.support.waiting import PATIENCE_SECONDS

Start = Callable[..., Service]


def roles() -> dict[str, Role]:
    """Every route of the service with the role that it declares."""
    with TemporaryDirectory() as data:
        declared = create_app(Settings(data=Path(data))).route_table.declared
    return {route: of.role for route, of in declared.items()}


ROUTES = roles()
FILLED = {
    "{model}": "m",
    "{challenger}": "c",
    "{job_id}": "j",
    "{prediction_id}": "p",
    "{asset}": "swagger-ui.css",
}
PAGE = {f"/dashboard/{path[: path.rfind('/') + 1]}{{name}}": f"/dashboard/{path}" for path in read_files()}
"""A file of the page for each folder."""


class Guarded:
    """A service with a key for each role."""

    def __init__(self, service: Service, holders: dict[str, Holder]) -> None:
        self.service = service
        self.holders = holders

    def status(self, method: str, path: str, **headers: str) -> int:
        with httpx.stream(
            method, f"{self.service.url}{path}", headers=headers, timeout=PATIENCE_SECONDS, verify=NO_TLS
        ) as answer:
            return answer.status_code


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    holders = {role: Holder(role, role) for role in ("read", "write", "admin")}
    talkative = {"log_level": "debug", "log_features": True}  # whatever it may say, it must not say keys
    data = tmp_path_factory.mktemp("keys") / "data"
    service = ServiceThread(data, api_keys=lines_of(*holders.values()), **talkative).start()
    for holder in holders.values():
        holder.at(service)
    good(holders["admin"].post("/models", {"model": "m"}))
    yield Guarded(service, holders)
    service.close()
    assert_no_secret_in("".join(service.log), *holders.values())


# Routes and roles


def test_every_route_of_the_openapi_document_has_its_role(guarded: Guarded) -> None:
    document = good(guarded.holders["read"].get("/openapi.json"))
    described = {
        f"{method.upper()} {path}": operation.get("x-role", "open")
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert described.items() <= {route: role.name.lower() for route, role in ROUTES.items()}.items()
    undescribed = {route for route in ROUTES if route not in described}
    assert all(ROUTES[route] is Role.OPEN for route in undescribed), undescribed


def test_the_page_on_security_has_the_same_table() -> None:
    rows = rows_of(section("Keys and roles", (ROOT / "docs" / "security.md").read_text()))
    documented = {
        route: role.strip("`")
        for role, _, routes in rows
        for route in re.findall(r"`([A-Z]+ /[^`]*)`", routes)
    }
    assert documented == {route: role.name.lower() for route, role in ROUTES.items()}


def test_a_route_has_to_declare_who_may_call_it(tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path))

    @app.get("/undeclared")
    async def undeclared() -> None: ...

    with pytest.raises(LookupError, match="/undeclared"):
        _ = app.route_table


async def test_a_route_that_is_not_declared_for_tenants_is_closed_to_them(tmp_path: Path) -> None:
    tenant, other = Holder("tenant", "admin", "acme-"), Holder("other", "read")
    app = create_app(Settings(data=tmp_path, api_keys=lines_of(tenant, other)))

    @app.get("/shared")
    @access(Role.READ)
    async def shared() -> str:
        return "what all have together"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert refusal(await client.get("/shared", headers=tenant.headers)) == (403, "forbidden")
        assert good(await client.get("/shared", headers=other.headers)) == "what all have together"


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_is_open_to_its_role_and_to_no_less(guarded: Guarded, route: str) -> None:
    method, _, path = route.partition(" ")
    path = PAGE.get(path) or re.sub(r"{\w+}", lambda found: FILLED[found[0]], path)
    needed = ROUTES[route]
    if needed is Role.OPEN:
        assert guarded.status(method, path) == 200
        return
    assert guarded.status(method, path) == 401
    for name, holder in guarded.holders.items():
        status = guarded.status(method, path, **holder.headers)
        if Role[name.upper()] < needed:
            assert status == 403
        else:
            assert status not in (401, 403) and status < 500


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"), ("GET", "/predict"), ("PATCH", "/models/m"), ("OPTIONS", "/stats"), ("HEAD", "/stats"),
        ("GET", "/stats/"), ("GET", "//stats"), ("GET", "/STATS"), ("POST", "/%70redict"), ("POST", "/predict/"),
        ("DELETE", "/models/m/"), ("GET", "/dashboard/../stats"), ("GET", "/dashboard/%2e%2e/stats"),
        ("GET", "/livez/../stats"), ("GET", "/stats;/livez"), ("GET", "/stats?/livez"), ("GET", "/metrics#/livez"),
        ("GET", "/docs/../models"), ("TRACE", "/"), ("GET", "http://localhost/stats"),
    ],
)  # fmt: skip
def test_there_is_no_way_around_the_gate(guarded: Guarded, method: str, path: str) -> None:
    """Said over a socket: clients would tidy such paths up."""
    address = guarded.service.client.base_url
    with socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_SECONDS) as connection:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 400 ")), answer


def test_a_spelling_that_the_router_takes_needs_the_same_role(guarded: Guarded) -> None:
    read = guarded.holders["read"]
    assert refusal(read.post("/%6dodels", {"model": "x"})) == (403, "forbidden")
    assert refusal(read.post("/%70redict", {"model": "m", "features": [1.0]})) == (403, "forbidden")
    assert refusal(read.post("/models/m/%70redict", {"features": [1.0]})) == (403, "forbidden")
    assert refusal(read.post("/models/%20/predict", {"features": [1.0]})) == (403, "forbidden")
    assert refusal(read.client.request("DELETE", "/models/%6d")) == (403, "forbidden")


def test_what_has_no_role_is_for_reading_or_for_admins(guarded: Guarded) -> None:
    for name, statuses in {"read": (404, 403), "write": (404, 403), "admin": (404, 405)}.items():
        headers = guarded.holders[name].headers
        found = guarded.status("GET", "/nothing", **headers), guarded.status("PATCH", "/models/m", **headers)
        assert found == statuses


# Presenting a key


def test_a_key_goes_into_either_header(guarded: Guarded) -> None:
    secret = guarded.holders["read"].secret
    for headers in (
        {"authorization": f"Bearer {secret}"},
        {"authorization": f"bEARER   {secret}"},
        {"x-api-key": secret},
        {"authorization": f"Bearer {secret}", "x-api-key": secret},
        {"authorization": "Basic dTpw", "x-api-key": secret},  # a proxy's own
    ):
        assert (
            httpx.get(
                f"{guarded.service.url}/stats", headers=headers, timeout=PATIENCE_SECONDS, verify=NO_TLS
            ).status_code
            == 200
        )


@pytest.mark.slow
def test_what_is_not_a_key_is_401_and_says_how_without_quoting_it(guarded: Guarded) -> None:
    holders = guarded.holders
    secret, other = holders["admin"].secret, holders["read"].secret
    digest = holders["admin"].line.split(":")[3]
    tried: list[Any] = [
        {},
        {"authorization": secret},
        {"authorization": f"Basic {secret}"},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {secret[:-1]}"},
        {"authorization": f"Bearer {secret}x"},
        {"authorization": f"Bearer {secret.swapcase()}"},
        {"authorization": f"Bearer {digest}"},
        {"authorization": f"Bearer sha256:{digest}"},
        {"authorization": f"Bearer {holders['admin'].line}"},
        {"authorization": b"Bearer \xff\xfe"},
        {"authorization": f"Bearer {secret}", "x-api-key": other},
        {"authorization": f"Bearer {secret}", "x-api-key": "wrong"},
        {"cookie": f"key={secret}"},
        [("x-api-key", secret), ("x-api-key", other)],
    ]
    for headers in tried:
        answer = httpx.get(
            f"{guarded.service.url}/stats", headers=headers, timeout=PATIENCE_SECONDS, verify=NO_TLS
        )
        assert refusal(answer) == (401, "unauthorized"), headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert_no_secret_in(answer.text + str(answer.headers), *holders.values())
    for path in (f"/stats?key={secret}", f"/stats?access_token={secret}"):
        assert (
            httpx.get(f"{guarded.service.url}{path}", timeout=PATIENCE_SECONDS, verify=NO_TLS).status_code
            == 401
        )


def test_a_body_is_not_read_before_the_key(guarded: Guarded) -> None:
    """Whoever has no key learns nothing about their body, and costs no more than their head."""
    for path in ("/predict", "/stream", "/models", "/models/m/fit", "/models/m/predict", "/models/m/stream"):
        answer = httpx.post(
            f"{guarded.service.url}{path}", content=b"{" * 100_000, timeout=PATIENCE_SECONDS, verify=NO_TLS
        )
        assert refusal(answer) == (401, "unauthorized")


def test_a_key_for_writing_makes_models_by_predicting_but_not_otherwise(guarded: Guarded) -> None:
    write = guarded.holders["write"]
    assert good(write.predict("by-writing", [1.0]))["model"] == "by-writing"
    assert refusal(write.post("/models", {"model": "chosen"})) == (403, "forbidden")
    assert refusal(write.client.delete("/models/by-writing")) == (403, "forbidden")


def test_the_openapi_document_says_how_keys_are_sent_and_asks_for_them_only_where_there_are_some(
    guarded: Guarded, service: Service
) -> None:
    asking, open_to_all = good(guarded.holders["read"].get("/openapi.json")), service.get("/openapi.json")
    for document in (asking, open_to_all):
        assert set(document["components"]["securitySchemes"]) == {"bearer", "header"}
    assert asking["paths"]["/stats"]["get"]["security"] and "security" not in asking["paths"]["/livez"]["get"]
    assert "security" not in json.dumps(open_to_all["paths"]) and "security" not in open_to_all


def test_a_route_takes_a_body_if_and_only_if_it_is_described_with_one(tmp_path: Path) -> None:
    """What comes to the others is passed over unread."""
    app = create_app(Settings(data=tmp_path))
    described = {
        f"{method.upper()} {path}"
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    }
    assert described == {of for of, what in app.route_table.declared.items() if what.body is not Body.NONE}
