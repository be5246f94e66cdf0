"""Wrong keys: whoever sends many has to pause, longer each time, and nobody else has to."""

import time
from collections.abc import Callable

import httpx

from tests.holders import Holder
from tests.running import NO_TLS, Service, problem_of
from tests.waiting import eventually

Start = Callable[..., Service]

WRONG = {"x-api-key": "nvk_wrong"}


def client_at(service: Service, address: str) -> httpx.Client:
    """One that comes from this address of the machine."""
    transport = httpx.HTTPTransport(local_address=address, verify=NO_TLS)
    return httpx.Client(base_url=service.url, transport=transport, timeout=30)


def test_after_some_wrong_keys_an_address_pauses_longer_each_time(start: Start) -> None:
    known, other = Holder("known", "read"), Holder("other", "read")
    service = start(api_keys=f"{known.line},{other.line}", refused_keys_max=3, trusted_proxies="10.0.0.1")
    with client_at(service, "127.0.0.2") as guessing, client_at(service, "127.0.0.3") as elsewhere:

        def status(headers: dict[str, str], client: httpx.Client = guessing) -> int:
            return client.get("/stats", headers=headers).status_code

        assert status(known.headers) == 200
        assert [status(WRONG) for _ in range(3)] == [401] * 3
        began = time.monotonic()
        for _ in range(3):
            eventually(lambda: status(WRONG) == 401)
        assert time.monotonic() - began >= 1 + 2 + 4
        paused = guessing.get("/stats", headers=WRONG)  # for eight seconds now
        assert problem_of(paused) == (429, "rate-limited")
        assert 1 <= int(paused.headers["retry-after"]) <= 8
        assert status(other.headers) == 429, "a right guess must not be told from a wrong one"
        assert status(known.headers) == 200, "this key came from there before"
        assert status(other.headers, elsewhere) == 200
        assert guessing.get("/livez").status_code == 200
        # Without a key nobody guesses.
        assert [status({}, elsewhere) for _ in range(10)] == [401] * 10
        assert status(other.headers, elsewhere) == 200


def test_behind_a_proxy_it_is_the_caller_who_pauses(start: Start) -> None:
    """Whom the proxy has heard from; what that one says of others is not believed."""
    holder = Holder("a", "read")
    service = start(api_keys=holder.line, refused_keys_max=3)

    def status(headers: dict[str, str], forwarded: str) -> int:
        sent = headers | {"x-forwarded-for": forwarded}
        return httpx.get(f"{service.url}/stats", headers=sent, verify=NO_TLS).status_code

    made_up = [status(WRONG, f"10.1.1.{i}, 192.0.2.7, 127.0.0.1") for i in range(5)]
    assert made_up == [401, 401, 401, 429, 429]
    assert status(holder.headers, "192.0.2.7") == 429
    assert status(holder.headers, "192.0.2.8") == 200
    # A proxy, or a program of this machine, that does not say for whom it calls is never made to pause.
    assert [
        httpx.get(f"{service.url}/stats", headers=WRONG, verify=NO_TLS).status_code for _ in range(9)
    ] == [401] * 9


def test_open_routes_are_limited_by_address_but_for_probes(start: Start) -> None:
    holder = Holder("a", "read")
    service = start(api_keys=holder.line, requests_per_second=0.001, requests_burst=3)
    headers = {"x-forwarded-for": "192.0.2.7"}
    answers = [httpx.get(f"{service.url}/", headers=headers, verify=NO_TLS) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert problem_of(answers[-1]) == (429, "rate-limited") and int(answers[-1].headers["retry-after"]) > 0
    others = {"x-forwarded-for": "192.0.2.8"}
    assert httpx.get(f"{service.url}/docs", headers=others, verify=NO_TLS).status_code == 200
    probes = [httpx.get(f"{service.url}/livez", headers=headers, verify=NO_TLS) for _ in range(10)]
    assert all(probe.status_code == 200 for probe in probes)
    assert (
        httpx.get(f"{service.url}/stats", headers=headers | holder.headers, verify=NO_TLS).status_code == 200
    )
