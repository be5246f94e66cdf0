"""What the service takes from uvicorn's inside is as it was when the service was written for it.

`service/web/http` and `service/commands/serve.py` extend classes that uvicorn does not promise to keep. So its minor
version is pinned in pyproject.toml, and when that moves this test tells which of the methods that are replaced,
extended or relied upon have changed: compare each with the one here, then note its new digest.
"""

import inspect
from hashlib import sha256
from importlib.metadata import version

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server as UvicornServer
from uvicorn.server import ServerState

from service.commands.serve import Server
from service.web.http.cycle import Cycle, WholeCycle
from service.web.http.protocol import Protocol

EXTENDED: tuple[tuple[type, type], ...] = (
    (Protocol, HttpToolsProtocol),
    (Cycle, RequestResponseCycle),
    (Server, UvicornServer),
)
RELIED_UPON = (
    HttpToolsProtocol._start_asgi_task,
    RequestResponseCycle.run_asgi,
    FlowControl,
    ServerState,
)
DIGESTS = {
    "FlowControl": "126debcdaa89",
    "HttpToolsProtocol.__init__": "4f0899941034",
    "HttpToolsProtocol._start_asgi_task": "9c08c2571ae9",
    "HttpToolsProtocol.connection_lost": "c91a4c9bf2e2",
    "HttpToolsProtocol.connection_made": "6efb565ff3d3",
    "HttpToolsProtocol.data_received": "010a7ae59a5d",
    "HttpToolsProtocol.on_body": "dba9c32aeba3",
    "HttpToolsProtocol.on_header": "65d62c044f61",
    "HttpToolsProtocol.on_headers_complete": "1ea8589acfad",
    "HttpToolsProtocol.on_message_begin": "96d377fdc7c2",
    "HttpToolsProtocol.on_message_complete": "1fbad42dc31f",
    "HttpToolsProtocol.on_response_complete": "64e254f28e38",
    "HttpToolsProtocol.pause_writing": "17a8fd215d96",
    "HttpToolsProtocol.resume_writing": "7844bbaa8cce",
    "HttpToolsProtocol.shutdown": "d7351fa33f00",
    "RequestResponseCycle.__init__": "4d2f220910c3",
    "RequestResponseCycle.receive": "8124ae006be7",
    "RequestResponseCycle.run_asgi": "0f33f2449a44",
    "RequestResponseCycle.send": "abdd8601b326",
    "Server.__init__": "c150b55284f7",
    "Server.handle_exit": "553276efa26e",
    "Server.on_tick": "60ea49b06ccf",
    "Server.shutdown": "9b33c5056299",
    "Server.startup": "2aa1d70a244b",
    "ServerState": "f2260fbf1015",
}
"""Of uvicorn 0.54.0."""


def digest(thing: object) -> str:
    return sha256(inspect.getsource(thing).encode()).hexdigest()[:12]  # type: ignore[arg-type]


def test_what_is_extended_or_relied_upon_has_not_changed() -> None:
    replaced = [
        getattr(theirs, name)
        for ours, theirs in EXTENDED
        for name, member in vars(ours).items()
        if inspect.isfunction(member) and name in vars(theirs)
    ]
    found = {thing.__qualname__: digest(thing) for thing in (*replaced, *RELIED_UPON)}
    changed = sorted(name for name in found.keys() | DIGESTS.keys() if found.get(name) != DIGESTS.get(name))
    assert not changed, f"uvicorn {version('uvicorn')} is not what it was in {changed}; now {found}"


def test_a_cycle_made_without_uvicorns_init_has_all_that_uvicorn_reads_of_it() -> None:
    """`WholeCycle` sets up less than its parent does."""
    code = (
        RequestResponseCycle.run_asgi,
        RequestResponseCycle.send_500_response,
        HttpToolsProtocol.connection_lost,
        HttpToolsProtocol.shutdown,
    )
    read = {name for function in code for name in function.__code__.co_names}
    made = {*RequestResponseCycle.__init__.__code__.co_names}
    kept = {*dir(WholeCycle), *WholeCycle.__init__.__code__.co_names}
    assert read & made <= kept, f"a cycle lacks {read & made - kept}"
