"""A Spark session: small, quiet, and removed without a trace.

What the user configured (SPARK_CONF_DIR, `conf`) overrides everything set here.

Not here: which programs use one (engines.py), and what is done with it (pipeline.py).
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from kaput.errors import JavaError
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.processes.signals import shielded

_local_jvms: list[subprocess.Popen[bytes]] = []  # the one that this process started, if any
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c: %m%n%ex
"""
_JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",  # C1 only: the queries end before C2 would pay off
    "-XX:ReservedCodeCacheSize=240m",  # C1's default of 48 MB is filled by the queries' generated code
    "-XX:+UseSerialGC",  # the heap is small
    "-XX:+ExitOnOutOfMemoryError",  # Spark would wait forever for the thread that hit it
    "-XX:-UsePerfData",  # a killed JVM would leave the file
)


@contextmanager
def owned(
    master: str | None = None, conf: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[SparkContext]:
    """A session as of `start`, for a process that has no other. Nothing of it is left after the block, or if
    the process is killed. Raises JavaError.
    """
    with Owner() as owner:
        try:
            yield start(owner.own_path, master, conf, jars)
        finally:
            close()


def start(
    own: Callable[[Path], object],
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
) -> SparkContext:
    """A session on `master`: local, or a cluster's address. None: as SPARK_CONF_DIR says, else local.

    `own` is called with the scratch directory, which must not outlive this process (Owner.own_path). `jars`
    are loaded by its JVMs. Raises JavaError if no JVM starts.
    """
    user_defaults = _user_defaults()
    master = master or user_defaults.get("spark.master", "local[*]")
    scratch = Path(tempfile.mkdtemp(prefix="kaput-spark-"))
    own(scratch)
    # Registered before Spark's own exit hooks, so that it runs after them.
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    # Tasks run this Python, with its packages, unless the user set another.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = {**user_defaults, **(conf or {})}
    settings = SparkConf().setMaster(master).setAppName("kaput")
    settings.setAll([(name, value) for name, value in _settings(scratch).items() if name not in given])
    settings.setAll(list((conf or {}).items()))
    if jars and "spark.jars" not in given:
        settings.set("spark.jars", ",".join(map(str, jars)))
    if SparkContext._gateway is None:
        with shielded():  # until the JVM is known, which `close` kills
            gateway = _gateway(settings, scratch, local=master.startswith("local"))
            SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    _hide_hang_ups()
    try:
        with _without_pandas(), _signals_kept():
            return SparkContext.getOrCreate(settings)
    except Py4JError as error:
        output = " / ".join(_message_lines(str(error))[:3])
        raise JavaError(f"Spark's JVM exited while the session was starting: {output}") from None


def close() -> None:
    """Stops Spark and, if kaput started it on this machine, its JVM.

    That has nothing to shut down, and an orderly shutdown takes a second: so it is killed, and its Python
    workers end when their connection closes.
    """
    context = SparkContext._active_spark_context
    if not _local_jvms:
        if context is not None:
            context.stop()
        return
    # Disconnects first: objects garbage-collected later would still call the JVM.
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    if context is not None:
        # Others who hold this context then see that it has stopped, and do not call the JVM.
        context._jsc = None
    jvm = _local_jvms.pop()
    jvm.kill()
    jvm.wait()


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
    one. Neither PySpark nor kaput uses it here.
    """
    if "pandas" in sys.modules:
        yield
        return
    sys.modules["pandas"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        yield
    finally:
        del sys.modules["pandas"]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restores the handler of Ctrl-C: PySpark's raises KeyboardInterrupt."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _gateway(settings: SparkConf, scratch: Path, local: bool) -> Any:
    """Starts the JVM, by Spark's own script."""
    find_java()
    log, before = scratch / "jvm.log", os.environ.get("SPARK_LOCAL_IP")
    temporary, tempfile.tempdir = tempfile.tempdir, str(scratch)  # for PySpark's own files
    if local and before is None:
        # A local Spark needs no name of this machine, which may not resolve: in a container without network.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        with log.open("wb") as output:
            options = {"stdout": output, "stderr": output}
            gateway: Any = launch_gateway(settings, popen_kwargs=options)  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError):
        lines = _message_lines(log.read_text(errors="replace"))[-3:]
        raise JavaError(f"Spark's Java did not start: {' / '.join(lines) or 'no output'}") from None
    finally:
        tempfile.tempdir = temporary
        if local and before is None:
            del os.environ["SPARK_LOCAL_IP"]
    if local and gateway.proc is not None:
        _local_jvms.append(gateway.proc)
    return gateway


def _message_lines(output: str) -> list[str]:
    """Java's output without empty lines and stack frames."""
    lines = (line.strip() for line in output.splitlines())
    return [line for line in lines if line and not line.startswith(("at ", "... "))]


def _settings(scratch: Path) -> dict[str, str]:
    """kaput's settings of Spark, by name."""
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.format(log=scratch / "spark.log"))
    own_files = (f"-Dlog4j2.configurationFile={log4j.as_uri()}", f"-Djava.io.tmpdir={scratch}")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join((*_JVM_OPTIONS, *own_files)),
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
