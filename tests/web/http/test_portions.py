"""However bytes come, no portion of them goes beyond the end of a request: the parser says where that is."""

from httptools import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from service.web.http.heads import framing_of
from service.web.http.portions import Portions

HEAD = b"POST /learn HTTP/1.1\r\nhost: here\r\n"

pieces = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"{}", b"GET / "])).map(
    b"".join
)


def chunked(parts: list[bytes], trailer: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailer + b"\r\n"


requests = st.one_of(
    st.just(HEAD.replace(b"POST", b"GET") + b"\r\n"),
    pieces.map(lambda body: HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)),
    st.builds(chunked, st.lists(pieces, max_size=3), st.sampled_from([b"", b"x: y\r\n"])),
)


class Reader:
    """Reads what comes in portions, and notes what the parser finds in each."""

    def __init__(self) -> None:
        self.parser = HttpRequestParser(self)
        self.portions = Portions()
        self.is_amid_request = False
        self.events = ""
        self.ended = 0

    def read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            end = self.portions.end(data, at)
            assert at < end <= len(data)
            self.events = ""
            self.parser.feed_data(data[at:end])
            assert self.events in ("", "b", "e", "be"), "it goes into the next request"
            at = end
        self.portions.remember_end(data, is_amid_request=self.is_amid_request)

    def on_message_begin(self) -> None:
        self.events += "b"
        self.is_amid_request = True
        self.headers: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.portions.begin_body(framing_of(self.headers, "1.1"))

    def on_body(self, body: bytes) -> None:
        self.portions.take(len(body))

    def on_message_complete(self) -> None:
        self.events += "e"
        self.is_amid_request = False
        self.portions.end_request()
        self.ended += 1


@given(st.lists(requests, min_size=1, max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_no_portion_goes_beyond_the_end_of_a_request(sent: list[bytes], sizes: list[int]) -> None:
    data = b"".join(sent)
    reader, at, turn = Reader(), 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        reader.read(data[at : at + size])
        at += size
        turn += 1
    assert reader.ended == len(sent)
    whole = Reader()
    whole.read(data)
    assert whole.ended == len(sent)
