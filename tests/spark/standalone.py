"""A real Spark cluster on this machine, from PySpark's own jars: a standalone master and its workers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark

from kaput.java import find_java
from waiting import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
# C1 only, as in a driver of ours: they are over before C2 would pay.
_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Standalone:
    """A master and two workers of one core each. `url` is what --master takes."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        port, self._ui = _free_port(), _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", "Master", "--port", str(port), "--webui-port", str(self._ui))
        wait_for(lambda: self._state() is not None, "the start of the master")
        self.workers = [
            self._start(f"worker-{n}", "Worker", "--cores", "1", "--memory", "2g", self.url) for n in range(2)
        ]
        wait_for(lambda: (self._state() or {}).get("aliveworkers") == 2, "the start of two workers")

    def _start(self, name: str, kind: str, *options: str) -> subprocess.Popen[bytes]:
        jars = os.pathsep.join(map(str, sorted((SPARK_HOME / "jars").glob("*.jar"))))
        command = [str(find_java().path), *_FLAGS, "-cp", jars, f"{_DEPLOY}.{kind.lower()}.{kind}"]
        work = ["--work-dir", str(self._directory / name)] if kind == "Worker" else []
        ui = ["--webui-port", "0"] if kind == "Worker" else []
        log = self._stack.enter_context((self._directory / f"{name}.log").open("wb"))
        # Spark's own scripts set the Scala version; without it the launcher looks for a build tree.
        env = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13"}
        env["PYSPARK_PYTHON"] = sys.executable
        # What a killed worker or its executor leaves is left among the test's own files.
        scratch = self._directory / "tmp"
        scratch.mkdir(exist_ok=True)
        env |= {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={scratch}", "SPARK_LOCAL_DIRS": str(scratch)}
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", *work, *ui, *options], stdout=log, stderr=log, env=env
        )
        self._stack.callback(_end, process)
        return process

    def _state(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui}/json/", timeout=5) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):
            return None  # not there, or there with pages alone: what answers in JSON is attached later

    def kill_worker(self) -> None:
        """Kills one worker, its executors and their Python, as a machine that loses power would."""
        _kill(self.workers[1])


@contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    """The cluster, up; gone afterwards."""
    with ExitStack() as stack:
        yield Standalone(directory, stack)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(process: subprocess.Popen[bytes]) -> None:
    whole = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for one in whole:
        one.kill()
    psutil.wait_procs(whole, timeout=10)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _kill(process)
    process.wait()
