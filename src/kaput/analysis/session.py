"""The Spark session that judges: small, quiet, quick to start, and gone without a trace.

`start` makes it here and now; `in_background` makes it in a thread of low priority, while a run still ends.
What the user configured (SPARK_CONF_DIR, `conf`) wins over everything set here.
Not here: what is done with the session (pipeline.py).
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kaput.errors import JavaError

_LOW_PRIORITY = 10  # niceness while a run is still ending: what is measured must not be disturbed
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c: %m%n%ex
"""


def start(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, background: bool = False
) -> SparkSession:
    """A session on `master`: local, a cluster's address, or a Spark Connect URL (`sc://...`).

    `background` lowers the priority of the calling thread before the JVM inherits it.
    Raises JavaError when no JVM comes up.
    """
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    if background and sys.platform == "linux":
        # Niceness belongs to the thread here, and a child inherits that of the thread that makes it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)
    scratch = Path(tempfile.mkdtemp(prefix="kaput-spark-"))
    # Registered before Spark's own exit hooks, so that it runs after them.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    settings = SparkConf().setMaster(master).setAppName("kaput")
    settings.setAll([*_settings(scratch).items(), *(conf or {}).items()])
    log = scratch / "jvm.log"
    if SparkContext._gateway is None:
        with log.open("wb") as said:
            try:
                gateway = launch_gateway(  # type: ignore[no-untyped-call]
                    settings, popen_kwargs={"stdout": said, "stderr": said}
                )
            except (PySparkRuntimeError, OSError):
                raise JavaError(f"Spark's Java did not start: {_last_words(log)}") from None
        SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    return SparkSession.builder.config(conf=settings).getOrCreate()


def _settings(scratch: Path) -> dict[str, str]:
    """Spark's settings by name; those that SPARK_CONF_DIR/spark-defaults.conf gives are left to it."""
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.format(log=scratch / "spark.log"))
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # C1 only: the queries are over before C2 would pay.
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={log4j.as_uri()}"
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(max(2, min(16, 2 * (os.cpu_count() or 1)))),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.cleaner.referenceTracking.blocking": "false",
    }
    given = _user_defaults()
    return {name: value for name, value in ours.items() if name not in given}


def _user_defaults() -> set[str]:
    """The names that the user's spark-defaults.conf sets."""
    directory = os.environ.get("SPARK_CONF_DIR")
    if not directory:
        return set()
    path = Path(directory) / "spark-defaults.conf"
    if not path.is_file():
        return set()
    lines = (line.strip() for line in path.read_text().splitlines())
    return {line.replace("=", " ", 1).split()[0] for line in lines if line and not line.startswith("#")}


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "it said nothing"


def in_background(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Future[SparkSession]:
    """Starts the session in a thread of its own; `result()` waits for it, or raises what `start` raised."""
    with _one_thread() as pool:
        return pool.submit(start, master, conf, True)


class Background:
    """A session that is wanted later: `begin` starts it beside other work, `session` waits for it.

    A context manager: at its end the session, if there is one, is stopped.
    """

    def __init__(self, java: Path | None = None, master: str = "local[*]") -> None:
        self.java = java
        self.master = master
        self._promise: Future[SparkSession] | None = None

    def begin(self) -> None:
        """Starts the session in the background, once."""
        if self._promise is None:
            self._promise = in_background(self.master)

    def session(self) -> SparkSession:
        """The session, waited for. Raises JavaError."""
        self.begin()
        assert self._promise is not None
        return self._promise.result()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._promise is not None and self._promise.done() and self._promise.exception() is None:
            self._promise.result().stop()


@contextmanager
def _one_thread() -> Iterator[ThreadPoolExecutor]:
    """A pool that takes no more work afterwards and is not waited for."""
    pool = ThreadPoolExecutor(1, "spark-start")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False)
