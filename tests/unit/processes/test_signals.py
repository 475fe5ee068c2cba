"""Ctrl-C with Polars loaded, which has the kernel start a call anew that a signal has interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys

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
            assert process.wait(30) == 0
            assert process.stdout.read() == "interrupted\n"
        finally:
            process.kill()
