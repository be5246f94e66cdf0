"""The rhythm of repetitions, by a clock that only the test moves."""

from itertools import pairwise

import httpx
import msgspec
import pytest

from novikoff.calls import PAUSE_SECONDS_MAX, Attempts, Call, refusal
from novikoff.errors import CutOff, Refused, Unreachable
from novikoff.lines import stream
from novikoff.schemas import Outcome


def test_pauses_grow_until_they_are_long_enough_and_end_in_time() -> None:
    now = 0.0
    attempts = Attempts(Call("POST", "/feedback", Outcome), retry_seconds=20.0, clock=lambda: now)
    pauses: list[float] = []
    with pytest.raises(Unreachable):
        while True:
            pauses.append(attempts.pause_after(httpx.ReadTimeout("late")))
            now += pauses[-1]
    assert now <= 20.0 and now > 20.0 - PAUSE_SECONDS_MAX
    assert all(pause <= PAUSE_SECONDS_MAX for pause in pauses)
    assert all(later >= earlier / 2 for earlier, later in pairwise(pauses))
    assert pauses[0] <= 0.1 < 1.0 <= pauses[-1]


def test_an_answer_that_is_cut_each_time_is_asked_for_until_time_is_over_and_then_it_is_told() -> None:
    now = 0.0
    sent = [{"features": [1.0], "id": f"c{number}"} for number in range(5)]
    call = stream(sent, "m")
    attempts = Attempts(call, retry_seconds=20.0, clock=lambda: now)
    refused = {"error": {"code": "unknown-label", "status": 422, "detail": "no such label"}}
    cut = httpx.Response(200, content=3 * (msgspec.json.encode(refused) + b"\n"))
    tries = 0
    with pytest.raises(CutOff, match="3 of 5 lines have a response"):
        while True:
            tries += 1
            with pytest.raises(CutOff) as raised:
                call.read(cut)
            now += attempts.pause_after(raised.value)
    assert tries > 10 and now > 20.0 - PAUSE_SECONDS_MAX


def test_a_pause_is_at_least_what_the_service_asked_for() -> None:
    attempts = Attempts(Call("POST", "/feedback", Outcome), retry_seconds=20.0, clock=lambda: 0.0)
    assert attempts.pause_after(refusal(httpx.Response(503, headers={"retry-after": "7"}))) == 7.0
    with pytest.raises(Refused):
        attempts.pause_after(refusal(httpx.Response(503, headers={"retry-after": "30"})))


def test_a_call_that_was_never_sent_is_repeated_even_if_it_is_not_safe_to_repeat() -> None:
    attempts = Attempts(
        Call("POST", "/models", Outcome, repeatable=False), retry_seconds=20.0, clock=lambda: 0.0
    )
    assert attempts.pause_after(httpx.ConnectError("nobody there")) > 0
    with pytest.raises(Unreachable):
        attempts.pause_after(httpx.ReadError("cut off"))


def test_what_the_client_did_wrong_is_not_repeated() -> None:
    attempts = Attempts(Call("POST", "/feedback", Outcome), retry_seconds=20.0)
    for status in (400, 401, 404, 409, 410, 422, 500):
        with pytest.raises(Refused) as refused:
            attempts.pause_after(refusal(httpx.Response(status, json={"code": "c", "detail": "d"})))
        assert refused.value.status == status
