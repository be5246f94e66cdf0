"""Trailer fields, which come behind a chunked body: none of them counts for anything."""

from collections.abc import Callable

import pytest

from tests.support.api_keys import Holder
from tests.support.raw_http import read_until
from tests.support.service_process import Service
from tests.web.raw import HOST, connect, said, statuses

Start = Callable[..., Service]

CLOSE = b"connection: close\r\n"
LAST = b"GET /nothing HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"


def chunked(first: bytes, trailer: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    """A request with a trailer."""
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    head = first + b" HTTP/1.1\r\n" + HOST + b"".join(fields) + b"transfer-encoding: chunked\r\n\r\n"
    return head + chunk + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    "trailer", [CLOSE, b"connection: upgrade\r\nupgrade: h2c\r\n", b"host: a\r\nhost: b\r\n"]
)
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_a_connection_stays_open_as_the_answer_says(service: Service, trailer: bytes, cut: int) -> None:
    """The parser takes `Connection: close` of a trailer for that of a head, and then reads nothing more."""
    sent = chunked(b"GET /livez", trailer) * 3 + LAST
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)] if cut else [sent]
    answers = said(service, *parts)
    assert statuses(answers) == [200, 200, 200, 404]
    assert answers.count(b"connection: close") == 1


def test_a_trailer_that_comes_after_the_answer_leaves_the_connection_open(service: Service) -> None:
    head, _, end = chunked(b"GET /livez", CLOSE).partition(b"0\r\n")
    with connect(service) as connection:
        connection.sendall(head)
        read_until(connection, b'"live"}')
        connection.sendall(b"0\r\n" + end)
        connection.sendall(chunked(b"GET /livez", CLOSE))
        read_until(connection, b'"live"}')


def test_a_trailer_does_not_say_who_calls(start: Start) -> None:
    """Past the limit of wrong keys, an address made up in a trailer is no way out."""
    service = start(api_keys=Holder("a", "read").line, refused_keys_max=1)
    proxied = b"x-forwarded-for: 192.0.2.7\r\n", b"x-api-key: wrong\r\n"
    answers = said(service, *(chunked(b"GET /stats", b"x-forwarded-for: 192.0.2.%d\r\n" % at, *proxied)
                              for at in range(20, 24)), LAST)  # fmt: skip
    assert statuses(answers) == [401, 429, 429, 429, 401], answers


def test_a_trailer_is_no_key(start: Start) -> None:
    holder = Holder("a", "write")
    service = start(api_keys=holder.line)
    key = b"x-api-key: %s\r\n" % holder.secret.encode()
    learn = b'{"model": "m", "features": [1.0], "label": 1}'
    json = b"content-type: application/json\r\n"
    sent = chunked(b"GET /stats", key) + chunked(b"POST /learn", key, json, body=learn) + LAST
    assert statuses(said(service, sent)) == [401, 401, 401]
    assert statuses(said(service, chunked(b"POST /learn", b"", json, key, body=learn) + LAST)) == [200, 401]


def test_a_body_has_no_encoding_that_a_trailer_tells(service: Service, name: str) -> None:
    body = b'{"model": "%s", "features": [1.0]}' % name.encode()
    json = b"content-type: application/json\r\n"
    sent = chunked(b"POST /predict", b"content-encoding: gzip\r\n", json, body=body) + LAST
    assert statuses(said(service, sent)) == [200, 404]
