"""What a JVM that is gone has PySpark print: nothing, while anything else is printed as ever."""

from __future__ import annotations

import socket

import pytest
from pyspark import accumulators

from kaput.analysis.spark import session

TOKEN = "token"


@pytest.mark.parametrize(
    ("sent", "printed"),
    [(b"token\0\0\0\2", ""), (b"token", ""), (b"wrong", "AccumulatorServer is not correct")],
)
def test_only_a_jvm_that_hangs_up_is_not_printed(
    sent: bytes, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a run that is interrupted while its session begins: the server is connected, nobody closes it."""
    session._hide_hang_ups()
    server = accumulators.AccumulatorTCPServer(("localhost", 0), accumulators.UpdateRequestHandler, TOKEN)
    with server, socket.create_connection(server.server_address) as jvm:
        jvm.sendall(sent)
        jvm.shutdown(socket.SHUT_WR)
        server.handle_request()
    error = capsys.readouterr().err
    assert printed in error if printed else not error
