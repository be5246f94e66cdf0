"""How keys come to a service and go again, and that neither it nor a command tells one."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET, socket

import pytest

from service.web.access.keys import make_key
from tests.support.api_keys import Holder, assert_no_secret_in, good, refusal
from tests.support.forkserver import run
from tests.support.raw_http import chunk, connect, read_until, stream_head
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.raw import rest_of

Start = Callable[..., Service]


# The file


def replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_keys_come_and_go_with_their_file(start: Start, tmp_path: Path) -> None:
    old, new, inline = Holder("old", "read"), Holder("new", "read"), Holder("inline", "read")
    path = tmp_path / "keys"
    path.write_text(f"# who may read\n{old.line}  # until autumn\n\n")
    service = start(api_keys_file=path, api_keys=inline.line)
    for holder in (old, new, inline):
        holder.at(service)
    assert old.get("/stats").status_code == inline.get("/stats").status_code == 200
    assert refusal(new.get("/stats")) == (401, "unauthorized")
    replace(path, new.line)
    eventually(lambda: new.get("/stats").status_code == 200)
    assert refusal(old.get("/stats")) == (401, "unauthorized")
    assert inline.get("/stats").status_code == 200
    service.stop()
    assert sum("API keys reloaded keys=2" in line for line in service.log) == 1
    assert_no_secret_in("".join(service.log), old, new, inline)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("mounted", ["keys", "."])
@pytest.mark.slow
def test_a_file_that_is_replaced_behind_a_mount_of_its_own_is_told_of(tmp_path: Path, mounted: str) -> None:
    """As in a container: of a directory that is mounted the new file is seen, of a mounted file it cannot be."""
    old, new = Holder("old", "read"), Holder("new", "read")
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir(), inside.mkdir()
    for directory in (outside, inside):
        (directory / "keys").write_text(old.line)
    mount = f"mount --bind {outside / mounted} {inside / mounted}"
    service = Service(tmp_path / "data", api_keys_file=inside / "keys")
    service.program = ("unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *service.program)
    service.start(cold=True)
    try:
        old.at(service), new.at(service)
        replace(outside / "keys", new.line)
        if mounted == "keys":
            service.wait_for_log("mount its directory")
            assert (old.get("/stats").status_code, new.get("/stats").status_code) == (200, 401)
        else:
            eventually(lambda: new.get("/stats").status_code == 200)
            assert old.get("/stats").status_code == 401
    finally:
        service.close()


@pytest.mark.parametrize("broken", ["", "nonsense", "{plain}", "{line}\n{line}", "x:root:sha256:" + "0" * 64])
def test_a_file_that_is_broken_now_leaves_the_keys_as_they_were(
    start: Start, tmp_path: Path, broken: str
) -> None:
    holder = Holder("a", "read")
    path = tmp_path / "keys"
    path.write_text(holder.line)
    service = start(api_keys_file=path)
    holder.at(service)
    replace(path, broken.format(plain=holder.secret, line=holder.line))
    service.wait_for_log("the old ones stay valid")
    assert holder.get("/stats").status_code == 200
    path.unlink()
    service.wait_for_log("the old ones stay valid", times=2)
    assert holder.get("/stats").status_code == 200
    replacement = Holder("b", "read").at(service)
    replace(path, replacement.line)
    eventually(lambda: replacement.get("/stats").status_code == 200)
    service.stop()
    assert_no_secret_in("".join(service.log), holder, replacement)


def has_learned(holder: Holder) -> bool:
    answer = holder.get("/stats/m")
    return answer.status_code == 200 and answer.json()["rounds"]["revealed"] == 1


def test_what_was_opened_with_a_key_ends_when_the_key_does(start: Start, tmp_path: Path) -> None:
    gone, kept = Holder("gone", "write"), Holder("kept", "write")
    path = tmp_path / "keys"
    path.write_text(f"{gone.line}\n{kept.line}")
    service = start(api_keys_file=path)
    gone.at(service)
    kept.at(service)

    def lines() -> Iterator[bytes]:
        yield b'{"model": "m", "features": [1.0], "label": 1}\n'
        eventually(lambda: has_learned(kept))
        replace(path, kept.line)
        eventually(lambda: gone.get("/stats").status_code == 401)
        yield b'{"model": "m", "features": [1.0], "label": 1}\n'
        yield b'{"model": "m", "features": [1.0]}\n'

    headers = {"content-type": "application/x-ndjson"}
    with gone.client.stream("GET", "/feed") as feed, kept.client.stream("GET", "/feed") as lasting:
        frames = feed.iter_lines()
        assert next(frames) == "retry: 2000"
        answer = gone.client.post("/stream", content=lines(), headers=headers)
        first, *others = map(json.loads, answer.text.splitlines())
        assert first["rounds"] == 1
        (last,) = others
        assert last["error"]["code"] == "unauthorized" and last["ended"] is True
        assert "1 lines were accepted, and no more" in last["error"]["detail"]
        for _ in frames:
            pass  # it ends
        assert next(lasting.iter_lines()) == "retry: 2000"
    assert good(kept.get("/stats/m"))["rounds"]["revealed"] == 1


@pytest.mark.parametrize("answers", ["all", "summary"])
def test_a_stream_that_is_silent_ends_with_its_key(start: Start, tmp_path: Path, answers: str) -> None:
    """And gives its place to another."""
    gone, kept = Holder("gone", "write"), Holder("kept", "write")
    path = tmp_path / "keys"
    path.write_text(f"{gone.line}\n{kept.line}")
    service = start(api_keys_file=path, streams_max=1)
    kept.at(service)
    key = f"x-api-key: {gone.secret}\r\n\r\n".encode()
    round_ = b'{"model": "m", "features": [1.0], "label": 1}\n'
    with connect(service) as connection:
        connection.sendall(
            stream_head(f"/stream?answers={answers}").removesuffix(b"\r\n") + key + chunk(round_)
        )
        eventually(lambda: has_learned(kept))
        replace(path, kept.line)
        received = read_until(connection, b"\r\n0\r\n\r\n")
        assert b'"unauthorized"' in received and b'"ended":' in received
        assert received.count(b'"unauthorized"') == 1
        connection.sendall(chunk(round_))
    assert good(kept.stream(round_))["rounds"] == 2


def test_refusals_are_told_once_a_second_without_what_was_sent(start: Start) -> None:
    holder, stranger = Holder("a", "read"), Holder("b", "admin")
    service = start(api_keys=holder.line)
    stranger.at(service)
    began = time.monotonic()
    for _ in range(50):
        assert refusal(stranger.get("/stats")) == (401, "unauthorized")
    seconds = time.monotonic() - began
    service.stop()
    told = [line for line in service.log if "refused: a request without a valid API key" in line]
    assert 1 <= len(told) <= seconds + 1 and "client=127.0.0.1 others=0" in told[0]
    assert_no_secret_in("".join(service.log), holder, stranger)


# The start


@pytest.mark.slow
def test_keys_that_are_wrong_keep_the_service_from_starting(tmp_path: Path) -> None:
    holder = Holder("a", "read")
    empty = tmp_path / "empty"
    empty.write_text("# nobody yet\n")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    serve = ("serve", "--port", "0", "--data", str(tmp_path / "data"))
    for setting, value, why in (
        ("api_keys", holder.secret, "NOVIKOFF_API_KEYS: entry 1 is not NAME:ROLE:sha256:HASH"),
        ("api_keys", f"{holder.line},a:read:{holder.secret}", "NOVIKOFF_API_KEYS: entry 2 is not"),
        (
            "api_keys",
            f"{holder.line} {holder.line}",
            "entry 2 repeats the name or hash of an earlier entry",
        ),
        ("api_keys", " , ", "there are no keys"),
        ("api_keys_file", str(tmp_path / "nowhere"), "nowhere: No such file or directory"),
        ("api_keys_file", str(tmp_path), "Is a directory"),
        ("api_keys_file", str(empty), "there are no keys"),
        ("api_keys_file", str(binary), "is not a text"),
    ):
        refused = run(*serve, **{setting: value})
        assert refused.returncode == 2, refused.stderr
        assert refused.stderr.startswith("novikoff: ") and refused.stderr.count("\n") == 1
        assert why in refused.stderr
        assert_no_secret_in(refused.stderr, holder)


@pytest.mark.slow
def test_without_keys_other_machines_are_let_in_only_if_told(tmp_path: Path) -> None:
    serve = ("serve", "--port", "0", "--data", str(tmp_path / "data"))
    for arguments, settings in (
        (("--host", "0.0.0.0"), {}),
        (("--host", "::"), {}),
        ((), {"host": "0.0.0.0"}),
        ((), {"host": ""}),
        (("--host", "0.0.0.0"), {"published": "8000"}),
        (("--host", "0.0.0.0"), {"published": "0.0.0.0:8000"}),
        (("--host", "127.0.0.1"), {"published": "192.0.2.7:8000"}),
        (("--host", "0.0.0.0", "--allow-anonymous", "--no-allow-anonymous"), {}),
        (("--host", "0.0.0.0", "--no-allow-anonymous"), {"allow_anonymous": "true"}),
    ):
        refused = run(*serve, *arguments, **settings)
        assert refused.returncode == 2 and "--allow-anonymous" in refused.stderr, refused.stderr
    refused = run(*serve, "--host", "no.such.host.invalid")
    assert refused.returncode == 2 and "cannot listen on no.such.host.invalid" in refused.stderr


def test_who_may_come_in_is_told_at_the_start(start: Start, tmp_path: Path) -> None:
    holder = Holder("a", "read")
    local = start(tmp_path / "local")
    keyed = start(tmp_path / "keyed", host="0.0.0.0", api_keys=holder.line)
    anybody = start(tmp_path / "anybody", host="0.0.0.0", allow_anonymous=True)
    contained = start(tmp_path / "contained", host="0.0.0.0", published="127.0.0.1:9000")
    for service, access in (
        (local, '"this machine"'),
        (contained, '"this machine"'),
        (keyed, "keys"),
        (anybody, "everybody"),
    ):
        service.stop()
        assert f" access={access} " in service.log[0]
        warned = any("anyone who can reach the service has full access" in line for line in service.log)
        assert warned == (service is anybody)


@pytest.mark.slow
def test_a_busy_port_is_told_in_a_line(tmp_path: Path, service: Service) -> None:
    port = str(service.client.base_url.port)
    refused = run("serve", "--data", str(tmp_path / "data"), "--port", port)
    assert refused.returncode == 2
    assert (
        refused.stderr
        == f"novikoff: cannot listen on 127.0.0.1, port {port}: address already in use; choose another"
        f" port with --port\n"
    )


# Commands


def test_a_key_made_by_the_command_works_in_all_commands_and_is_told_by_none(
    start: Start, tmp_path: Path
) -> None:
    made = run("key", "--name", "ci", "--role", "admin", "--prefix", "ci-")
    secret, line = made.stdout.split()
    assert made.returncode == 0 and "not stored anywhere" in made.stderr
    service = start(api_keys=line)
    at = ("--url", service.url)
    rounds = tmp_path / "rounds.jsonl"
    rounds.write_text('{"features": [1.0], "label": 1}\n{"features": [-1.0], "label": -1}\n')
    said = ""
    for arguments in (
        ("replay", str(rounds), "--model", "ci-replayed", *at),
        ("top", "--once", *at),
        ("export", "ci-replayed", "--to", str(tmp_path / "export.json"), *at),
        ("import", str(tmp_path / "export.json"), "--model", "ci-copy", *at),
    ):
        with_key = run(*arguments, "--key", secret)
        assert with_key.returncode == 0, with_key.stderr
        without = run(*arguments)
        assert without.returncode == 1 and "unauthorized, 401" in without.stderr, without.stderr
        wrong = run(*arguments, "--key", secret + "x")
        assert wrong.returncode == 1 and "unauthorized, 401" in wrong.stderr
        said += with_key.stdout + with_key.stderr + without.stderr + wrong.stdout + wrong.stderr
    outside = run("replay", str(rounds), "--model", "elsewhere", "--key", secret, *at)
    assert outside.returncode == 1 and "forbidden" in outside.stderr, outside.stderr
    service.stop()
    checked = run("doctor", "--data", str(service.data), api_keys=line)
    assert checked.returncode == 0
    own = run("replay", str(rounds), "--model", "own", "--data", str(service.data), api_keys=line)
    assert own.returncode == 0, own.stderr  # whoever has the directory needs no key
    said += outside.stderr + checked.stdout + checked.stderr + own.stdout + own.stderr + "".join(service.log)
    assert secret not in said and secret[8:20] not in said and line.split(":")[3][:16] not in said


@pytest.mark.slow
def test_keys_are_long_random_and_cannot_be_called_anything() -> None:
    made = {make_key("a", "read")[0] for _ in range(100)}
    assert len(made) == 100 and all(re.fullmatch(r"nvk_[\w-]{43}", secret) for secret in made)
    for arguments in (
        ("--name", "a b"),
        ("--name", "a:b"),
        ("--name", ""),
        ("--name", "a", "--prefix", "a/b"),
    ):
        refused = run("key", *arguments)
        assert refused.returncode == 1 and not refused.stdout and "letters" in refused.stderr
    assert run("key", "--name", "a", "--role", "root").returncode == 2


LARGE = {"labels": list(range(60)), "features": {"kind": "dense", "dimension": 65_536}}


@pytest.mark.parametrize(
    "path",
    ["history", "history?format=arrow", "weights", "export?format=sklearn", "export?format=onnx"],
)
def test_an_answer_under_way_breaks_off_when_its_key_is_revoked(
    start: Start, tmp_path: Path, path: str
) -> None:
    gone, kept = Holder("gone", "read"), Holder("kept", "admin")
    keys = tmp_path / "keys"
    keys.write_text(f"{gone.line}\n{kept.line}")
    service = start(api_keys_file=keys)
    gone.at(service), kept.at(service)
    if path.startswith("history"):
        round_ = json.dumps({"features": [at + 0.123456 for at in range(5_000)], "label": 1}).encode() + b"\n"
        good(kept.stream(round_ * 400, "?model=m&answers=summary"))
    else:
        good(kept.post("/models", {"model": "m", **LARGE}))
    whole = len(kept.get(f"/models/m/{path}").content)
    received = 0
    with socket() as connection:
        connection.setsockopt(SOL_SOCKET, SO_RCVBUF, 65_536)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect((service.client.base_url.host, service.client.base_url.port))
        key = f"x-api-key: {gone.secret}\r\n"
        connection.sendall(f"GET /models/m/{path} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n".encode())
        assert b" 200 OK" in connection.recv(100)
        replace(keys, kept.line)
        eventually(lambda: gone.get("/stats").status_code == 401)
        received = len(rest_of(connection))
    assert received < whole * 0.8
    service.wait_for_log("a response was aborted: this API key is no longer valid")
    assert not any("unexpected error" in line for line in service.log)
    eventually(lambda: 'novikoff_budget_bytes{of="copies"} 0' in kept.get("/metrics").text)
