"""What browsers are told, and what pages of other sites can do to a service: nothing."""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.api_keys import Holder, good
from tests.support.forkserver import run
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

Start = Callable[..., Service]

SITE = "https://app.example.org"
EVIL = "https://evil.example"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/", None), ("GET", "/docs", None), ("GET", "/dashboard/app.js", None), ("GET", "/stats", None),
        ("GET", "/openapi.json", None), ("GET", "/metrics", None), ("GET", "/nothing", None),
        ("PATCH", "/models", None), ("GET", "/stats?limit=no", None), ("POST", "/models", "no"),
        ("POST", "/predict", {"model": "browsers", "features": [1.0]}), ("POST", "/predict", "no"),
        ("POST", "/stream", "no"),
    ],
)  # fmt: skip
def test_every_answer_tells_browsers_to_be_careful(
    service: Service, method: str, path: str, body: object
) -> None:
    headers = service.client.request(method, path, json=body).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers and "server" not in headers
    if path not in ("/predict", "/stream"):  # never a page, and too busy for more
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        assert "unsafe-eval" not in policy
        assert headers["cache-control"] in ("no-store", "no-cache", "private, no-cache")


def test_the_policy_of_docs_lets_its_own_script_run(service: Service) -> None:
    answer = service.client.get("/docs")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]


def test_docs_load_nothing_from_elsewhere(service: Service) -> None:
    answer = service.client.get("/docs")
    assert "://" not in answer.headers["content-security-policy"]
    loaded = re.findall(r'(?:src|href)="([^"]*)"', answer.text)
    assert "docs/swagger-ui-bundle.js" in loaded
    for path in loaded:
        assert "://" not in path
        assert service.client.get(f"/{path}").status_code == 200, path
    assert service.client.get("/docs/core.py").status_code == 404


def test_what_is_sent_never_comes_back_as_a_page(service: Service) -> None:
    markup = "<script>alert(1)</script>"
    for answer in (
        service.client.get(f"/{markup}"),
        service.client.get(f"/stats/{markup}"),
        service.client.get("/stats", params={markup: "1"}),
        service.client.get("/stats", params={"sort": markup}),
        service.client.get(f"/jobs/{markup}"),
        service.client.get(f"/dashboard/{markup}"),
        service.client.post("/predict", json={"model": markup, "features": [1.0]}),
        service.client.post("/feedback", json={"prediction_id": markup, "label": 1}),
        service.client.post("/learn", json={"model": "m", "features": {markup: {}}, "label": 1}),
        service.client.request("OPTIONS", f"/{markup}"),
    ):
        assert answer.status_code >= 400
        assert answer.headers["content-type"] == "application/problem+json"


# Pages of other sites


def preflight(service: Service, origin: str, path: str, method: str = "POST") -> httpx.Response:
    asked = {"origin": origin, "access-control-request-method": method,
             "access-control-request-headers": "authorization, content-type"}  # fmt: skip
    return service.client.options(path, headers=asked)


@pytest.mark.parametrize("path", ["/predict", "/stats", "/models/m"])
def test_other_sites_are_not_let_in_unless_told(service: Service, path: str) -> None:
    assert preflight(service, SITE, path).status_code in (403, 405)
    answer = service.client.get("/stats", headers={"origin": SITE}, timeout=PATIENCE_SECONDS)
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_chosen_sites_are_let_in_on_every_route(start: Start) -> None:
    holder = Holder("page", "write")
    service = start(cors_origins=f"{SITE}, http://localhost:5173", api_keys=holder.line)
    for path in ("/predict", "/feedback", "/learn", "/stream", "/stats", "/models/m"):
        for origin in (SITE, "http://localhost:5173"):
            allowed = preflight(service, origin, path)
            assert allowed.status_code == 200
            assert allowed.headers["access-control-allow-origin"] == origin
            assert "authorization" in allowed.headers["access-control-allow-headers"]
            assert "access-control-allow-credentials" not in allowed.headers
        refused = preflight(service, EVIL, path)
        assert refused.status_code == 400 and "access-control-allow-origin" not in refused.headers
    holder.headers["origin"] = SITE
    holder.at(service)
    served = holder.predict("m", [1.0])
    lines = holder.stream(b'{"model": "m", "features": [1.0], "label": 1}')
    for answer in (served, lines, holder.get("/stats"), holder.get("/nothing"), holder.predict("m", [])):
        assert answer.headers["access-control-allow-origin"] == SITE
        assert "Origin" in answer.headers["vary"]
        assert "retry-after" in answer.headers["access-control-expose-headers"]
    assert good(lines)["rounds"] == 1
    without = httpx.get(
        f"{service.url}/stats", headers={"origin": SITE}, timeout=PATIENCE_SECONDS, verify=NO_TLS
    )
    assert problem_of(without) == (401, "unauthorized")
    assert without.headers["access-control-allow-origin"] == SITE  # so that the page can read why
    holder.headers["origin"] = EVIL
    assert "access-control-allow-origin" not in holder.at(service).get("/stats").headers


def test_a_page_of_another_site_changes_nothing(service: Service, name: str) -> None:
    """A form needs no leave to send a POST without a body; a browser says where it comes from, though."""
    service.learn(name, [1.0], 1)
    own = f"http://{service.client.base_url.netloc.decode()}"
    for headers in (
        {"origin": EVIL},
        {"origin": "null"},
        {"origin": EVIL, "sec-fetch-site": "cross-site"},
        {"origin": own + "0", "sec-fetch-site": "same-site"},
        {"origin": EVIL, "content-type": "application/x-www-form-urlencoded"},
    ):
        for method, path in (("POST", f"/models/{name}/reset"), ("DELETE", f"/models/{name}")):
            refused = service.client.request(method, path, headers=headers)
            assert problem_of(refused) == (403, "forbidden")
    simple = {"origin": EVIL, "content-type": "text/plain"}  # what a page may send without asking
    body = f'{{"model": "{name}", "features": [1.0], "label": 1}}'
    for path in ("/learn", "/predict", "/models", "/stream"):
        assert service.client.post(path, content=body, headers=simple).status_code in (403, 415)
    assert service.stats(name)["version"] == 1
    for headers in ({}, {"origin": own}, {"origin": own, "sec-fetch-site": "same-origin"}):
        assert service.client.post(f"/models/{name}/reset", headers=headers).status_code == 200


def test_a_site_cannot_pass_for_this_machine(service: Service, name: str) -> None:
    """A page may let its own name lead to 127.0.0.1: then the browser takes the service for that page's."""
    service.learn(name, [1.0], 1)
    port = service.client.base_url.port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "0.0.0.0",
    ):
        for answer in (
            service.client.get("/stats", headers={"host": host}),
            service.client.get("/", headers={"host": host}),
            service.client.post(
                "/learn", json={"model": name, "features": [1.0], "label": 1}, headers={"host": host}
            ),
        ):
            assert problem_of(answer) == (403, "forbidden")
    assert service.stats(name)["version"] == 1
    for host in ("localhost", f"localhost:{port}", "LOCALHOST", "127.0.0.1:1", "[::1]:80", "app.localhost"):
        assert service.client.get("/stats", headers={"host": host}).status_code == 200


def test_with_keys_any_name_will_do(start: Start) -> None:
    holder = Holder("a", "read")
    keyed = start(api_keys=holder.line)
    named = {"host": "novikoff.example.org"}
    assert (
        httpx.get(
            f"{keyed.url}/stats", headers=holder.headers | named, timeout=PATIENCE_SECONDS, verify=NO_TLS
        ).status_code
        == 200
    )


def reached_as(service: Service, host: str, **headers: str) -> int:
    answer = service.client.get("/stats", headers={"host": host, **headers})
    assert answer.status_code == 200 or problem_of(answer) == (403, "forbidden")
    return answer.status_code


def test_a_site_cannot_pass_for_a_service_that_lets_everybody_in(start: Start) -> None:
    """Whoever can reach it may use it, but a page in the browser of one who can is somebody else."""
    service = start(allow_anonymous=True)
    for host in ("evil.example", "novikoff", "evil.10.0.0.1", "10.0.0.1.evil.example", ""):
        assert reached_as(service, host) == 403, host
    page = service.client.get("/", headers={"host": "evil.example"})
    assert problem_of(page) == (403, "forbidden")
    # A page can make its name lead to an address, but an address is nobody's name.
    for host in ("localhost", "10.1.2.3:8000", "192.168.0.1", "[2001:db8::1]:80", "127.0.0.1:", "0.0.0.0"):
        assert reached_as(service, host) == 200, host
    reset = service.client.post("/models/m/reset", headers={"origin": EVIL})
    assert problem_of(reset) == (403, "forbidden")


def test_the_names_of_a_service_are_a_setting(start: Start) -> None:
    service = start(allow_anonymous=True, allowed_hosts="novikoff, *.Example.org,balancer")
    for host in ("novikoff:8000", "NOVIKOFF", "balancer", "a.example.org", "a.b.example.org:1", "localhost"):
        assert reached_as(service, host) == 200, host
    for host in ("example.org", "evilexample.org", "novikoff.evil.example", "xnovikoff", "a..example.org"):
        assert reached_as(service, host) == 403, host
    service.stop()
    anyhow = start(allowed_hosts="*")
    assert reached_as(anyhow, "evil.example") == 200
    anyhow.stop()
    holder = Holder("a", "read")
    keyed = start(api_keys=holder.line, allowed_hosts="novikoff")
    assert (
        reached_as(keyed, "novikoff", **holder.headers)
        == reached_as(keyed, "10.0.0.1", **holder.headers)
        == 200
    )
    assert reached_as(keyed, "evil.example", **holder.headers) == 403


@pytest.mark.parametrize(
    "names", ["http://novikoff", "novikoff:8000", "*example.org", "a.*.org", "a/b", "a..b"]
)
@pytest.mark.slow
def test_what_is_no_name_keeps_the_service_from_starting(tmp_path: Path, names: str) -> None:
    ended = run("serve", "--port", "0", "--data", str(tmp_path / "data"), allowed_hosts=names)
    assert ended.returncode == 2 and "NOVIKOFF_ALLOWED_HOSTS: " in ended.stderr
