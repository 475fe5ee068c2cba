"""Put before all Python that is measured: children that nobody wants to wait for are waited for after all.

PySpark's daemon ignores SIGCHLD. The kernel then forgets what its workers have used, and no getrusage tells
of the CPU seconds of the Python tasks. Here such a process gets a handler that waits; all else stays.
"""

import os
import signal

_signal = signal.signal


def _wait(number, frame):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _patched(number, handler):
    ignored = number == signal.SIGCHLD and handler == signal.SIG_IGN
    return _signal(number, _wait if ignored else handler)


signal.signal = _patched
