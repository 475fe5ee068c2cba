"""The Spark session that judges: small, quiet, fast to start, and removed without a trace.

`start` makes it now; background.py makes it in the background of a run. What the user configured
(SPARK_CONF_DIR, `conf`) overrides everything set here. Not here: what is done with the session (pipeline.py).
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
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from kaput.analysis.spark import driver
from kaput.errors import JavaError
from kaput.java import find_java
from kaput.processes.ownership import Owner

_own_drivers: list[driver.Driver] = []  # the JVM that this process started, if any
_user_settings: set[str] = set()  # names of settings that the user gave: they override ours
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
    on_spawn: driver.OnSpawn = lambda process: None,
    jars: Sequence[Path] = (),
) -> SparkContext:
    """A session on `master`: local, or a cluster's address. None: as SPARK_CONF_DIR says, else local.

    `own` is called with the scratch directory, which must not outlive this process (Owner.own_path). `jars`
    are loaded by its JVMs. If this process starts the JVM itself, `on_spawn` is called with it. Raises
    JavaError if no JVM starts.
    """
    user_defaults = _user_defaults()
    master = master or user_defaults.get("spark.master", "local[*]")
    scratch = Path(tempfile.mkdtemp(prefix="kaput-spark-"))
    own(scratch)
    # Registered before Spark's own exit hooks, so that it runs after them.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    # Tasks run this Python, with its packages, unless the user set another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _user_settings.update(user_defaults, conf or {})
    settings = SparkConf().setMaster(master).setAppName("kaput")
    settings.setAll([*_settings(scratch, master).items(), *(conf or {}).items()])
    if SparkContext._gateway is None:
        if driver.can_launch_directly(master, _user_settings):
            gateway = _own_gateway(scratch, on_spawn, jars)
        else:
            if jars and "spark.jars" not in _user_settings:
                settings.set("spark.jars", ",".join(map(str, jars)))
            gateway = _spark_gateway(settings, scratch)
        SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    _hide_hang_ups()
    try:
        with _without_pandas():
            return SparkContext.getOrCreate(settings)
    except Py4JError as error:
        output = " / ".join(driver.message_lines(str(error))[:3])
        raise JavaError(f"Spark's JVM exited while the session was starting: {output}") from None


def _hide_hang_ups() -> None:
    """Keeps the accumulator server from printing a traceback when the JVM has hung up on it.

    An interrupted run kills the JVM, possibly while the session starts; whoever waits for the session gets
    its own error. Set on the class, because the server may not exist yet.
    """
    for name in ("AccumulatorServer", "AccumulatorTCPServer", "AccumulatorUnixServer"):  # 4.0 has the first
        if (server := getattr(accumulators, name, None)) is not None:
            server.handle_error = _handle_error


def _handle_error(server: BaseServer, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), (EOFError, ConnectionError)):
        BaseServer.handle_error(server, request, client_address)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Hides pandas from PySpark, which would import it for a second to check its version, and warn of a new
    one.

    It does so with the first values that it passes to Java; neither PySpark nor kaput uses pandas here.
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
    on_spawn: driver.OnSpawn,
    jars: Sequence[Path],
) -> Any:
    java = find_java()
    log4j = f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}"
    # By default C1 gets a code cache of 48 MB, which the queries' generated code fills.
    code_cache = "-XX:ReservedCodeCacheSize=240m"
    # If killed while starting, it leaves nothing outside its scratch.
    tidy = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}"]
    flags = [log4j, code_cache, *tidy]
    started = driver.launch(java, scratch, {}, flags, on_spawn, jars)
    with driver.advertised(started):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    _own_drivers.append(started)
    return gateway


def _spark_gateway(settings: SparkConf, scratch: Path) -> Any:
    log = scratch / "jvm.log"
    with log.open("wb") as output:
        try:
            return launch_gateway(  # type: ignore[no-untyped-call]
                settings, popen_kwargs={"stdout": output, "stderr": output}
            )
        except (PySparkRuntimeError, OSError):
            raise JavaError(f"Spark's Java did not start: {driver.log_tail(log)}") from None


def _settings(scratch: Path, master: str) -> dict[str, str]:
    """Spark's settings by name, without those in SPARK_CONF_DIR/spark-defaults.conf."""
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.format(log=scratch / "spark.log"))
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # C1 only: the queries end before C2 would pay off.
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={log4j.as_uri()}"
        ),
        "spark.local.dir": str(scratch),
        "spark.cleaner.referenceTracking.blocking": "false",
        # The ledger's shuffle data is already packed.
        "spark.shuffle.compress": "false",
        "spark.shuffle.checksum.enabled": "false",
        # One worker runs per core: none needs more than one thread.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        # Columns of a million rows come and go: returning each to the kernel and getting it again costs more
        # than the work on them, so glibc keeps the last 256 MB, for numpy and for Arrow.
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(2**28),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(2**28),
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    if master.startswith("local"):
        # On a cluster, Python workers are started by a Spark that may not have this module.
        ours["spark.python.daemon.module"] = "kaput.analysis.spark.python_workers"
    given = _user_defaults()
    return {name: value for name, value in ours.items() if name not in given}


def _user_defaults() -> dict[str, str]:
    """The settings in the user's spark-defaults.conf."""
    directory = os.environ.get("SPARK_CONF_DIR")
    if not directory:
        return {}
    path = Path(directory) / "spark-defaults.conf"
    if not path.is_file():
        return {}
    # Java reads properties as Latin-1.
    lines = (line.strip() for line in path.read_text(encoding="latin-1").splitlines())
    pairs = [re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] != "#"]
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


@contextmanager
def owned(
    master: str | None = None, conf: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[SparkContext]:
    """A session as of `start`, for a process that has no other. Nothing of it is left after the block, or if
    the process is killed. Raises JavaError.
    """
    with Owner() as owner:
        context = start(owner.own_path, master, conf, jars=jars)
        try:
            yield context
        finally:
            close(context)


def close(spark: SparkContext) -> None:
    """Stops Spark and, if kaput started it, its JVM.

    kaput's own JVM has nothing to shut down, and an orderly shutdown takes a second: so it is killed, and its
    Python workers end when their connection closes.
    """
    if not _own_drivers:
        spark.stop()
        return
    # Disconnects first: objects garbage-collected later would still call the JVM.
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    # Others who hold this context then see that it has stopped, and do not call the JVM.
    spark._jsc = None
    own = _own_drivers.pop()
    own.process.kill()
    driver.end(own)
