"""A Spark session that is wanted later: made while there is load, where its JVM can be kept behind that.

Else, and where Spark's own scripts start the JVM, a thread of low priority makes it while the run ends.
What a thread does here holds the interpreter's lock: so the JVM alone is kept behind, and not this thread.
Nothing here imports PySpark before it must: that takes a second, which the start of a run has not to spare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark import driver
from kaput.processes.idle_priority import IdlePriority, find_method
from kaput.processes.ownership import Owner

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOW_PRIORITY = 10  # niceness: what is measured must not be disturbed
_GIVE_UP_S = 10


class Background:
    """`prepare` loads what a session needs, `begin` starts one, `session` waits for it.

    `rehearse`: the session's first analysis is a rehearsal, while there is still time for one.
    A context manager: at its end the session, if there is one, is stopped, and nothing of it is left.
    """

    def __init__(
        self,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        rehearse: bool = False,
    ) -> None:
        self._master, self._conf, self._rehearse = master, conf, rehearse
        self._promise: Future[SparkContext] | None = None
        self._pool = ThreadPoolExecutor(1, "kaput-spark", initializer=_step_back)
        self._owner = Owner()
        self._wanted = self._over = False
        self._jvm: subprocess.Popen[bytes] | None = None
        way = find_method() if driver.own_way(master or "local", conf or {}) else None
        self._behind = IdlePriority(way) if way is not None else None

    def prepare(self) -> None:
        """Loads PySpark in the background; starts the session, too, where the JVM can be kept behind."""
        self._pool.submit(_load)
        if self._behind is not None:
            self._submit()

    def begin(self) -> None:
        """Starts the session in the background, once; where that is done already, hurries it."""
        self._submit()
        if self._behind is not None:
            self._behind.restore()

    def _submit(self) -> None:
        if self._promise is None:
            self._promise = self._pool.submit(self._start)

    def _start(self) -> SparkContext:
        from kaput.analysis.spark.session import start  # and no more: the JVM takes longest

        scratch: list[Path] = []

        def own(path: Path) -> None:
            scratch.append(path)
            self._owner.own_path(path)

        session = start(own, self._master, self._conf, spawned=self._spawned, behind=self._kept_behind)
        if self._rehearse and not self._wanted:
            from kaput.analysis.rehearsal import rehearse

            # Where it goes with the session's own files, whatever happens to this process.
            rehearse(session, scratch[0] / "rehearsal")
        return session

    def _kept_behind(self) -> bool:
        return self._behind is not None and self._behind.lowered

    def _spawned(self, process: subprocess.Popen[bytes]) -> None:
        self._jvm = process
        if self._over:
            process.kill()
        elif self._behind is not None:
            self._behind.lower(process.pid)

    def session(self) -> SparkContext:
        """The session, waited for. Raises JavaError."""
        self._wanted = True
        self.begin()
        assert self._promise is not None
        return self._promise.result()

    def __enter__(self) -> Background:
        self._owner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._wanted = self._over = True
        if self._behind is not None:
            self._behind.restore()
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            self._stop()
        finally:
            self._owner.__exit__(*error)

    def _stop(self) -> None:
        """Stops the session; one that is not there yet is not waited for."""
        if self._promise is None or self._promise.cancelled():
            return
        if not self._promise.done() and self._jvm is not None:
            self._jvm.kill()
        wait([self._promise], _GIVE_UP_S)
        if self._promise.done() and self._promise.exception() is None:
            from kaput.analysis.spark.session import close

            close(self._promise.result())


def _step_back() -> None:
    """Lowers the priority of this thread. The JVM that it starts inherits that."""
    if sys.platform == "linux":
        # Niceness belongs to the thread here, and a child inherits that of the thread that makes it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


def _load() -> None:
    import kaput.analysis.rehearsal
    import kaput.analysis.spark.session  # noqa: F401
