"""A Spark session that is wanted later: made in a thread of low priority, while a run still ends.

Nothing here imports PySpark before it must: that takes a second, which the start of a run has not to spare.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaput.processes.ownership import Owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOW_PRIORITY = 10  # niceness: what is measured must not be disturbed


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
        self._promise: Future[SparkSession] | None = None
        self._pool = ThreadPoolExecutor(1, "kaput-spark", initializer=_step_back)
        self._owner = Owner()

    def prepare(self) -> None:
        """Loads PySpark and the analysis in the background."""
        self._pool.submit(_load)

    def begin(self) -> None:
        """Starts the session in the background, once."""
        if self._promise is None:
            self._promise = self._pool.submit(self._start)

    def _start(self) -> SparkSession:
        from kaput.analysis.rehearsal import rehearse
        from kaput.analysis.session import start

        scratch: list[Path] = []

        def own(path: Path) -> None:
            scratch.append(path)
            self._owner.own_path(path)

        session = start(self._master, self._conf, own=own)
        if self._rehearse:
            # Where it goes with the session's own files, whatever happens to this process.
            rehearse(session, scratch[0] / "rehearsal")
        return session

    def session(self) -> SparkSession:
        """The session, waited for. Raises JavaError."""
        self.begin()
        assert self._promise is not None
        return self._promise.result()

    def __enter__(self) -> Background:
        self._owner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            if self._promise is not None and self._promise.done() and self._promise.exception() is None:
                from kaput.analysis.session import close

                close(self._promise.result())
        finally:
            self._owner.__exit__(*error)


def _step_back() -> None:
    """Lowers the priority of this thread. The JVM that it starts inherits that."""
    if sys.platform == "linux":
        # Niceness belongs to the thread here, and a child inherits that of the thread that makes it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


def _load() -> None:
    import kaput.analysis.rehearsal
    import kaput.analysis.session  # noqa: F401
