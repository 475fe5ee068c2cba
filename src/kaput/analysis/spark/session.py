"""The Spark session that judges: small, quiet, quick to start, and gone without a trace.

`start` makes it here and now; background.py while there is load, or while a run ends.
What the user configured (SPARK_CONF_DIR, `conf`) wins over everything set here.
Not here: what is done with the session (pipeline.py).
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from kaput.analysis.spark import driver
from kaput.errors import JavaError
from kaput.java import find_java

_own: list[driver.Driver] = []  # the JVM that this process started itself, while there is one
_given: set[str] = set()  # names of the settings that the user gave: they win
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
    own: Callable[[Path], object],
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    spawned: driver.Spawned = lambda process: None,
    behind: Callable[[], bool] = lambda: False,
    jars: Sequence[Path] = (),
) -> SparkContext:
    """A session on `master`: local, or a cluster's address. None: as SPARK_CONF_DIR says, else local.

    `own` is called with the directory that must not outlive this process (Owner.own_path). `jars` are loaded
    by its JVMs, too. `options` are more flags of a local driver's JVM; `spawned` is called with the JVM where
    this process starts it itself, `behind` says whether that is kept behind others at the moment.
    Raises JavaError when no JVM comes up.
    """
    theirs = _user_defaults()
    master = master or theirs.get("spark.master", "local[*]")
    scratch = Path(tempfile.mkdtemp(prefix="kaput-spark-"))
    own(scratch)
    # Registered before Spark's own exit hooks, so that it runs after them.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    # Tasks run the Python that this is, with the packages it has, unless the user names another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _given.update(theirs, conf or {})
    settings = SparkConf().setMaster(master).setAppName("kaput")
    settings.setAll([*_settings(scratch, master).items(), *(conf or {}).items()])
    if SparkContext._gateway is None:
        if driver.own_way(master, _given):
            gateway = _own_gateway(scratch, options, spawned, behind, jars)
        else:
            if jars and "spark.jars" not in _given:
                settings.set("spark.jars", ",".join(map(str, jars)))
            gateway = _spark_gateway(settings, scratch)
        SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    _hide_hang_ups()
    try:
        with _without_pandas():
            return SparkContext.getOrCreate(settings)
    except Py4JError as error:
        output = " / ".join(driver.without_frames(str(error))[:3])
        raise JavaError(f"Spark's Java ended while the session began: {output}") from None


def _hide_hang_ups() -> None:
    """The server that adds up what tasks count prints no traceback where the JVM has hung up on it.

    A run that is interrupted kills the JVM, at times while the session still begins; whoever waits for that
    gets an error of its own. So it is set for the class: the server itself may not be there yet.
    """
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _handle_error  # type: ignore[method-assign,assignment]


def _handle_error(server: BaseServer, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), (EOFError, ConnectionError)):
        BaseServer.handle_error(server, request, client_address)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Where there is a pandas, PySpark loads it to look at its version, for a second, and warns of a new one.

    It does so with the first values that it hands to Java; neither it nor we use pandas.
    """
    if "pandas" in sys.modules:
        yield
        return
    sys.modules["pandas"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        yield
    finally:
        del sys.modules["pandas"]


def _own_gateway(
    scratch: Path,
    options: Sequence[str],
    spawned: driver.Spawned,
    behind: Callable[[], bool],
    jars: Sequence[Path],
) -> Any:
    java = find_java()
    archive = None if options else driver.find_archive(java)
    shared = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive else []
    log4j = f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}"
    # C1 alone gets a cache of 48 MB, which the code generated for queries fills: the JVM then sweeps it.
    room = "-XX:ReservedCodeCacheSize=240m"
    # Killed in the midst of its start, it leaves nothing outside its scratch.
    tidy = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}"]
    flags = [log4j, room, *tidy, *shared, *options]
    started = driver.launch(java, scratch, {}, flags, spawned, behind, jars)
    with driver.announced(started):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    _own.append(started)
    return gateway


def _spark_gateway(settings: SparkConf, scratch: Path) -> Any:
    log = scratch / "jvm.log"
    with log.open("wb") as output:
        try:
            return launch_gateway(  # type: ignore[no-untyped-call]
                settings, popen_kwargs={"stdout": output, "stderr": output}
            )
        except (PySparkRuntimeError, OSError):
            raise JavaError(f"Spark's Java did not start: {driver.last_words(log)}") from None


def _settings(scratch: Path, master: str) -> dict[str, str]:
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
        "spark.cleaner.referenceTracking.blocking": "false",
        # What the ledger shuffles is packed already.
        "spark.shuffle.compress": "false",
        "spark.shuffle.checksum.enabled": "false",
        # As many workers run as there are cores: none of them needs more than one.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        # Columns of a million rows come and go: to give each back and to get it anew costs the kernel more
        # than the work on them. So glibc keeps the last 64 MB.
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(2**25),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(2**26),
    }
    if master.startswith("local"):
        # Elsewhere, Python workers are started by a Spark that may not have this module at hand.
        ours["spark.python.daemon.module"] = "kaput.analysis.spark.python_workers"
    given = _user_defaults()
    return {name: value for name, value in ours.items() if name not in given}


def _user_defaults() -> dict[str, str]:
    """What the user's spark-defaults.conf sets."""
    directory = os.environ.get("SPARK_CONF_DIR")
    if not directory:
        return {}
    path = Path(directory) / "spark-defaults.conf"
    if not path.is_file():
        return {}
    # As Java reads properties: every byte is a character.
    lines = (line.strip() for line in path.read_text(encoding="latin-1").splitlines())
    pairs = [re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] != "#"]
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def close(spark: SparkContext, timeout_s: float = 10, in_good_order: bool = False) -> None:
    """Stops Spark and, where the JVM is ours, ends that too: nothing of it is left.

    A JVM of ours has nothing to shut down in order, which takes it a second: unless it is to end
    `in_good_order`, it is killed, and its Python workers end as they are hung up on.
    """
    if not _own:
        spark.stop()
        return
    if in_good_order:
        spark.stop()
    # Hung up first: what is collected later would otherwise still call the JVM.
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    # So that who else holds this context sees that it has stopped, and does not call the JVM that is gone.
    spark._jsc = None
    own = _own.pop()
    if not in_good_order:
        own.process.kill()
    driver.end(own, timeout_s)
