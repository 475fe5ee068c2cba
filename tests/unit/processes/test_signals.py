"""Ctrl-C in the midst of what libraries do: Polars has the kernel start a call anew that a signal has
interrupted, and py4j catches every Exception.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from py4j.clientserver import ClientServerConnection

from kaput.errors import Interrupted
from kaput.processes.signals import interrupts
from waiting import PATIENCE_S

_READING = """
import sys
from kaput.errors import Interrupted
from kaput.processes.signals import interrupts
try:
    with interrupts():
        import kaput.analysis.pipeline
        print("reading", flush=True)
        sys.stdin.readline()
except Interrupted:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_read_although_polars_is_loaded() -> None:
    """The read would go on for ever: nobody writes."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _READING], text=True, **pipes) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "reading\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            assert process.stdout.read() == "interrupted\n"
        finally:
            process.kill()


class _Answering:
    """A JVM's end of a connection, at which the signal arrives while its answer is waited for."""

    def sendall(self, data: bytes) -> None:
        """Takes it."""

    def readline(self) -> bytes:
        os.kill(os.getpid(), signal.SIGINT)
        return b"!yv\n"


def test_ctrl_c_during_a_spark_call_raises_interrupted() -> None:
    """And not an error of Spark's, which would end kaput as a fault of its own."""
    connection = object.__new__(ClientServerConnection)
    connection.socket = connection.stream = _Answering()
    with pytest.raises(Interrupted, match="SIGINT"), interrupts():
        connection.send_command("c\n")
    connection.socket = None  # there is nothing to close
