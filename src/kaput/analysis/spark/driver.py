"""Starts the driver JVM quickly: by Spark's own command line, from the cache.

Spark's spark-submit starts one JVM to find out how to start another. The result depends only on the
installation, so it is cached (`_recipe`). Not here: when this shortcut is used, and Spark's settings
(session.py).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kaput.cache import cache_dir
from kaput.errors import JavaError
from kaput.evidence.folder import replace_text
from kaput.java import Java

START_TIMEOUT_S = 60
_MAIN = "org.apache.spark.deploy.SparkSubmit"
# C1 only: the queries end before C2 would pay off. Serial GC: the heap is small.
# Exit when out of memory: Spark would wait forever for the thread that hit it.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
OnSpawn = Callable[[subprocess.Popen[bytes]], object]
_WITH_JARS = {"spark.jars", "spark.jars.packages"}  # only Spark's own scripts resolve these for the driver


@dataclass(frozen=True)
class Driver:
    """A running driver JVM. It ends when its stdin is closed. `port` and `secret` are py4j's."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def spark_home() -> Path:
    """The directory of PySpark. Raises JavaError if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaError("PySpark is not installed; run `make install`")
    return Path(spec.origin).parent


def key(java: Java) -> str:
    """The cache key of the recipe: a hash of Java and jars."""
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    stats = [f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars]
    facts = [str(java.path), java.build, *stats]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def can_launch_directly(master: str, settings: Iterable[str]) -> bool:
    """Whether the JVM can start without Spark's scripts: not if the user configured them."""
    variables = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
    local = master.startswith("local") and os.name == "posix"
    return local and not any(map(os.environ.get, variables)) and not _WITH_JARS.intersection(settings)


def launch(
    java: Java,
    scratch: Path,
    settings: Mapping[str, str],
    options: Sequence[str],
    on_spawn: OnSpawn = lambda process: None,
    jars: Sequence[Path] = (),
) -> Driver:
    """Starts the JVM with Spark's settings, extra JVM options and extra jars.

    `on_spawn` is called with its process at once. Raises JavaError with the end of its log.
    """
    command = _command(java, settings, options, jars)
    info, log = scratch / "gateway", scratch / "jvm.log"
    # A local Spark needs no name of this machine, which may not resolve: in a container without network.
    env = {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ}
    env |= {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(info), "SPARK_HOME": str(spark_home())}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,  # a terminal's Ctrl-C must not reach it before us
        )
    on_spawn(process)
    limit = time.monotonic() + START_TIMEOUT_S
    while not info.exists():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise JavaError(f"Spark's Java did not start: {log_tail(log)}")
        time.sleep(0.02)
    port, secret = _read_info(info)
    return Driver(process, port, secret)


def end(driver: Driver, timeout_s: float = 10) -> int | None:
    """Closes the JVM's stdin, on which it exits; kills it after the timeout. Returns its exit status."""
    assert driver.process.stdin is not None
    driver.process.stdin.close()
    try:
        return driver.process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        driver.process.kill()
        driver.process.wait()
        return None


@contextmanager
def advertised(driver: Driver) -> Iterator[None]:
    """Sets the environment so that PySpark connects to this driver instead of starting one."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(driver.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = driver.secret
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def log_tail(log: Path) -> str:
    """The end of a JVM's log, as one line."""
    return " / ".join(message_lines(log.read_text(errors="replace"))[-3:]) or "no output"


def message_lines(output: str) -> list[str]:
    """Java's output without empty lines and stack frames."""
    lines = (line.strip() for line in output.splitlines())
    return [line for line in lines if line and not line.startswith(("at ", "... "))]


def _read_info(info: Path) -> tuple[int, str]:
    data = info.read_bytes()
    port, length = struct.unpack_from("!ii", data)
    return port, data[8 : 8 + length].decode()


def _command(
    java: Java, settings: Mapping[str, str], options: Sequence[str], jars: Sequence[Path]
) -> list[str]:
    """Spark's own command line with our JVM options and jars, and our settings before `pyspark-shell`."""
    recipe = _recipe(java)
    if jars:
        # After Spark's own.
        at = recipe.index("-cp") + 1
        recipe[at] = os.pathsep.join([recipe[at], *map(str, jars)])
    main = recipe.index(_MAIN)
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [recipe[0], *recipe[1:main], *FLAGS, *options, _MAIN, *confs, "pyspark-shell"]


def _recipe(java: Java) -> list[str]:
    """The command line that Spark's launcher would run, from the cache if possible."""
    kept = cache_dir("spark") / f"{key(java)}.json"
    try:
        return [str(word) for word in json.loads(kept.read_text())]
    except (OSError, ValueError):
        recipe = _ask_launcher(java)
        replace_text(kept, json.dumps(recipe))
        return recipe


def _ask_launcher(java: Java) -> list[str]:
    home = spark_home()
    jars = sorted((home / "jars").glob("*.jar"))
    command = [str(java.path), "-cp", os.pathsep.join(map(str, jars)), "org.apache.spark.launcher.Main"]
    done = subprocess.run(
        [*command, _MAIN, "pyspark-shell"],
        capture_output=True,
        check=False,
        timeout=START_TIMEOUT_S,
        # The launcher looks for the Scala version in build trees only; an installation has none.
        env={"SPARK_SCALA_VERSION": "2.13", **os.environ, "SPARK_HOME": str(home)},
    )
    words = [word.decode() for word in done.stdout.split(b"\0")]
    if done.returncode != 0 or _MAIN not in words:
        output = done.stderr.decode(errors="replace").strip()[-300:]
        raise JavaError(f"Spark's launcher did not print how to start it: {output}")
    main = words.index(_MAIN)
    at = words.index("-cp")
    # An archive is valid only for a class path of jars: no directories, no wildcards.
    words[at + 1] = os.pathsep.join(map(str, jars))
    # The first words are empty ones that spark-class's shell loop wants; Java comes right before -cp.
    return [str(java.path), *words[at : main + 1]]
