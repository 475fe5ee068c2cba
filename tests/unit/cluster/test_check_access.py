"""A cluster that is spoken to in the wrong way: at once, a sentence with the option that mends it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin.client import check_access
from kaput.cluster.wire import AccessRefused, WrongProtocol
from kaput.errors import LabError

_API_VERSIONS = 18
_ALERT = bytes.fromhex("15030300020246")


def tls_alone(_request: bytes) -> bytes:
    """As a listener of SSL or SASL_SSL answers to anything that is no TLS."""
    return _ALERT


def sign_in_first(request: bytes) -> bytes:
    """As a listener of SASL_PLAINTEXT: who it is may be asked, for the rest it hangs up."""
    if request[:1] == b"\x16" or struct.unpack(">h", request[4:6])[0] != _API_VERSIONS:
        return b""
    body = struct.pack(">ihBi", struct.unpack(">i", request[8:12])[0], 0, 1, 0) + b"\x00"
    return struct.pack(">i", len(body)) + body


def mute(_request: bytes) -> bytes:
    """A broker on its way down: it hangs up, whatever it is asked."""
    return b""


@contextmanager
def node(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """HOST:PORT of somebody who answers each connection's first bytes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(answer(connection.recv(1 << 16)))

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "what"), [(tls_alone, "requires TLS"), (sign_in_first, "requires clients to authenticate")]
)
def test_missing_command_config_is_reported_promptly(answer: Callable[[bytes], bytes], what: str) -> None:
    """And not what a client library makes of it after half a minute."""
    began = time.monotonic()
    with node(answer) as server, pytest.raises(WrongProtocol, match=f"{server} {what}.*--command-config"):
        check_access(server, OPEN)
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    ("answer", "protocol", "what"),
    [(tls_alone, "SASL_PLAINTEXT", "requires TLS"), (sign_in_first, "SSL", "does not use TLS")],
)
def test_wrong_security_protocol_error_names_the_config(
    tmp_path: Path, answer: Callable[[bytes], bytes], protocol: str, what: str
) -> None:
    path = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n", encoding="utf-8"
    )
    wanted = rf"{what}, but {path} \(--command-config\) has security.protocol={protocol}"
    with node(answer) as server, pytest.raises(WrongProtocol, match=wanted):
        check_access(server, Access.read(path))


def test_closed_connection_tries_the_next_server() -> None:
    """The next server is asked; if none answers, the error says what to look at."""
    found = "cannot be reached: .* check that a broker runs there"
    with node(mute) as first, node(mute) as second, pytest.raises(LabError, match=found):
        check_access(f"{first},{second}", OPEN)
    with node(mute) as first, node(tls_alone) as second, pytest.raises(AccessRefused, match="requires TLS"):
        check_access(f"{first},{second}", OPEN)


@pytest.mark.parametrize(
    "verb",
    [
        ["doctor"],
        ["reassign", "--balance", "--all-topics"],
        ["peek", "orders/0", "--replica", "1"],
        ["replay", "orders", "again"],
        ["run", "noop"],
    ],
)
def test_wrong_protocol_exits_with_status_2_for_every_command(verb: list[str]) -> None:
    """It is the user's to mend."""
    with node(tls_alone) as server:
        result = CliRunner().invoke(app, [*verb, "--bootstrap-servers", server])
    assert isinstance(result.exception, WrongProtocol), result.output
    assert result.exception.exit_status == 2 and "--command-config" in str(result.exception)
