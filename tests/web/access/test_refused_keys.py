"""Wrong keys: whoever sends many has to pause, longer each time, and nobody else has to."""

import time
from collections.abc import Callable
from itertools import count

import httpx

from tests.support.api_keys import Holder
from tests.support.service_process import NO_TLS, Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

Start = Callable[..., Service]

WRONG = {"x-api-key": "nvk_wrong"}
TRIES = 12
"""To find a pause that is long enough, each with a key that has never come: after seven they take a minute."""


def get(service: Service, path: str, headers: dict[str, str]) -> httpx.Response:
    """On a connection of its own."""
    return httpx.get(f"{service.url}{path}", headers=headers, timeout=PATIENCE_SECONDS, verify=NO_TLS)


def client_at(service: Service, address: str) -> httpx.Client:
    """One that comes from this address of the machine."""
    transport = httpx.HTTPTransport(local_address=address, verify=NO_TLS)
    return httpx.Client(base_url=service.url, transport=transport, timeout=PATIENCE_SECONDS, verify=NO_TLS)


def test_after_some_wrong_keys_an_address_pauses_longer_each_time(start: Start) -> None:
    known, other = Holder("known", "read"), Holder("other", "read")
    guessed = [Holder(f"guessed-{number}", "read") for number in range(TRIES)]
    keys = ",".join(holder.line for holder in (known, other, *guessed))
    service = start(api_keys=keys, refused_keys_max=3, trusted_proxies="10.0.0.1")
    with client_at(service, "127.0.0.2") as guessing, client_at(service, "127.0.0.3") as elsewhere:

        def status(headers: dict[str, str], client: httpx.Client = guessing) -> int:
            return client.get("/stats", headers=headers).status_code

        assert status(known.headers) == 200
        assert [status(WRONG) for _ in range(3)] == [401] * 3
        began = time.monotonic()
        for _ in range(3):
            eventually(lambda: status(WRONG) == 401)
        assert time.monotonic() - began >= 1 + 2 + 4
        untried = iter(guessed)

        def is_pausing() -> bool:
            """A pause of eight seconds, in which all of this is so; on a slow machine it may be a later, longer one."""
            paused, guess = guessing.get("/stats", headers=WRONG), next(untried)
            told = status(guess.headers), status(known.headers), guessing.get("/livez").status_code
            if paused.status_code == 401 or status(WRONG) == 401:
                return False  # it was over, and the next one has begun
            assert problem_of(paused) == (429, "rate-limited")
            assert 1 <= int(paused.headers["retry-after"]) <= 60
            assert told == (429, 200, 200), (
                "a right guess is not told from a wrong one; `known` came from there before"
            )
            return True

        eventually(is_pausing)
        assert status(other.headers, elsewhere) == 200
        # Without a key nobody guesses.
        assert [status({}, elsewhere) for _ in range(10)] == [401] * 10
        assert status(other.headers, elsewhere) == 200


def test_behind_a_proxy_it_is_the_caller_who_pauses(start: Start) -> None:
    """Whom the proxy has heard from; what that one says of others is not believed."""
    holders = [Holder(f"h{number}", "read") for number in range(TRIES)]
    service = start(api_keys=",".join(holder.line for holder in holders), refused_keys_max=3)
    numbers, untried = count(), iter(holders)

    def status(headers: dict[str, str], forwarded: str) -> int:
        return get(service, "/stats", headers | {"x-forwarded-for": forwarded}).status_code

    def made_up() -> int:
        return status(WRONG, f"10.1.1.{next(numbers)}, 192.0.2.7, 127.0.0.1")

    def is_pausing() -> bool:
        """The first pause takes a second, each further one twice as long: one of them lasts for three requests."""
        first, guess, last = made_up(), status(next(untried).headers, "192.0.2.7"), made_up()
        if 401 in (first, last):
            return False  # it was over, and the next one has begun
        assert (first, guess, last) == (429, 429, 429)
        return True

    assert [made_up() for _ in range(3)] == [401] * 3
    eventually(is_pausing)
    assert status(holders[0].headers, "192.0.2.8") == 200
    # A proxy, or a program of this machine, that does not say for whom it calls is never made to pause.
    assert [get(service, "/stats", WRONG).status_code for _ in range(9)] == [401] * 9


def test_what_is_no_address_is_one_caller_however_it_is_written(start: Start) -> None:
    """Or a client could fill the table of callers with long texts, and have a new name for each guess."""
    service = start(api_keys=Holder("a", "read").line, refused_keys_max=3)
    numbers = count()

    def status() -> int:
        return get(
            service, "/stats", WRONG | {"x-forwarded-for": f"{next(numbers)}" + "x" * 10_000}
        ).status_code

    eventually(lambda: status() == 429)


def test_open_routes_are_limited_by_address_but_for_probes(start: Start) -> None:
    holder = Holder("a", "read")
    service = start(api_keys=holder.line, requests_per_second=0.001, requests_burst=3)
    headers = {"x-forwarded-for": "192.0.2.7"}
    answers = [get(service, "/", headers) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert problem_of(answers[-1]) == (429, "rate-limited") and int(answers[-1].headers["retry-after"]) > 0
    others = {"x-forwarded-for": "192.0.2.8"}
    assert get(service, "/docs", others).status_code == 200
    probes = [get(service, "/livez", headers) for _ in range(10)]
    assert all(probe.status_code == 200 for probe in probes)
    assert get(service, "/stats", headers | holder.headers).status_code == 200
