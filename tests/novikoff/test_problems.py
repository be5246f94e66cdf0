"""The exceptions of the client, and those that they are made of: copied and sent between processes whole."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import service.app  # noqa: F401  (so that every exception is known)
from novikoff import BadOption, Client, Ended, NotUnderstood, Refused
from service.errors import FieldError, NovikoffError
from service.web.problems import HttpError
from tests.novikoff.conftest import Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.service_process import Service

FIELDS = (FieldError("features[2]", "is not a number"), FieldError("label", "is missing"))


def examples() -> Iterator[NovikoffError]:
    yield Refused("unknown-label", 422, "no such label", FIELDS)
    yield Ended("overloaded", 503, "no room", FIELDS)
    yield HttpError("method-not-allowed", "no", ((b"allow", b"GET"),))
    for kind in below(NovikoffError) - {Refused, Ended, HttpError}:
        yield kind("what happened", FIELDS)


def below(kind: type[NovikoffError]) -> set[type[NovikoffError]]:
    return {kind}.union(*map(below, kind.__subclasses__()))


COPIERS: list[Callable[[Any], Any]] = [
    *(
        lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
        for protocol in range(2, 6)
    ),
    copy.copy,
    copy.deepcopy,
]


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("error", sorted(examples(), key=repr), ids=repr)
def test_every_exception_can_be_copied_and_pickled_whole(
    error: NovikoffError, copier: Callable[[Any], Any]
) -> None:
    error.add_note("in the second attempt")
    copied = copier(error)
    assert type(copied) is type(error) and copied is not error
    assert (copied.args, vars(copied), str(copied)) == (error.args, vars(error), str(error))
    assert copied.code == error.code


@pytest.mark.parametrize("url", ["", "http://", "ftp://example.org", "http://[::1", "http://localhost:99999"])
def test_a_url_that_cannot_be_one_is_told_before_anything_is_sent(connect: Connect, url: str) -> None:
    with pytest.raises(BadOption, match="is not an http:// or https:// URL"):
        connect(url)


@pytest.mark.parametrize("key", ["gr\u00fcn", "two\nlines"])
def test_a_key_that_cannot_be_one_is_told_before_anything_is_sent(connect: Connect, key: str) -> None:
    with pytest.raises(ValueError, match="the API key has characters that are not allowed"):
        connect("http://localhost:8000", key=key)


@pytest.mark.parametrize("fault", ["another program", "bad encoding"])
def test_an_answer_of_another_program_is_told_as_such(
    connect: Connect, service: Service, name: str, fault: str
) -> None:
    with FaultyProxy(service, fault) as proxy:
        client = connect(proxy.url)
        with pytest.raises(NotUnderstood, match=r"the response to GET /models/.* is not from Novikoff"):
            client.get_model(name)


def test_an_address_without_a_scheme_is_taken_as_http(service: Service, name: str) -> None:
    with Client(service.url.removeprefix("http://")) as client:
        assert client.learn(name, [1.0], 1).rounds == 1
