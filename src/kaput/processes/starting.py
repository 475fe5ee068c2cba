"""A small process that starts programs for another one, one at a time, and ends what it started with that.

Whoever changes what its children would inherit (the dashboard steps back behind all runs) has this started
before. It is told what to do by lines of JSON on stdin (`{"start": [ARGUMENT, ...]}`, `{"stop": true}`) and
says what becomes of it on stdout (`{"pid": N}`, `{"said": LINE}`, `{"ended": STATUS}`). The end of stdin,
however that came about, interrupts what runs, as Ctrl-C would, and waits for it. Should this process be
killed, the guardian of what it owns ends that. Not here: what is started, and who may ask.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from kaput.errors import LabError
from kaput.processes.ownership import OwnedProcess, Owner

END_S = 120.0  # for a program that was interrupted to clean up after itself
_LOOK_S = 0.5
_LAST_LINES_S = 2.0


class _Program:
    """What was started last."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._process: OwnedProcess | None = None
        self._lock = threading.Lock()
        self._stopped_at: float | None = None

    def start(self, arguments: Sequence[str]) -> None:
        """Returns at once; whoever asks knows that nothing else runs."""
        if self._thread is not None:
            self._thread.join()
        self._process, self._stopped_at = None, None
        self._thread = threading.Thread(target=self._run, args=(arguments,))
        self._thread.start()

    def stop(self) -> None:
        """As Ctrl-C; the first time counts."""
        with self._lock:
            if self._stopped_at is None:
                self._stopped_at = time.monotonic()
                if self._process is not None:
                    self._process.signal(signal.SIGINT)

    def end(self) -> None:
        """Stops it, if it runs, and waits until it and all that it owned are gone."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _run(self, arguments: Sequence[str]) -> None:
        status: int | None = None
        try:
            with Owner(marks_environment=False) as owner:
                process = owner.spawn(arguments, name="started", stderr=subprocess.PIPE)
                _tell(pid=process.pid)
                reader = threading.Thread(target=_pass_on, args=(process.popen.stderr,), daemon=True)
                reader.start()
                with self._lock:
                    self._process = process
                    if self._stopped_at is not None:
                        process.signal(signal.SIGINT)
                status = self._waited_for(process)
            # What it left behind, which is gone by now, may have held the other end of this.
            reader.join(_LAST_LINES_S)
        except (LabError, OSError, ValueError) as error:  # ValueError: no argument of a program
            _tell(said=str(error))
        finally:
            _tell(ended=status)

    def _waited_for(self, process: OwnedProcess) -> int:
        while (status := process.wait(_LOOK_S)) is None:
            if self._stopped_at is not None and time.monotonic() - self._stopped_at > END_S:
                process.kill()
        return status


def _pass_on(lines: IO[bytes] | None) -> None:
    assert lines is not None
    for line in lines:
        _tell(said=line.decode(errors="replace").rstrip()[:1000])


_telling = threading.Lock()


def _tell(**what: Any) -> None:
    with _telling, suppress(OSError):  # whoever asked is gone
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def main() -> None:
    """The process."""
    program = _Program()
    for line in sys.stdin.buffer:
        order = json.loads(line)
        if "start" in order:
            program.start(order["start"])
        else:
            program.stop()
    program.end()


if __name__ == "__main__":
    main()
