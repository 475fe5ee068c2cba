"""The driver's JVM, started quickly: by Spark's own command line, kept, and on an archive of its classes.

Spark's spark-submit starts one JVM to find out how to start another. What it finds out depends on the
installation alone, so it is asked once and kept (`_recipe`). The archive (AppCDS) is made by archive.py.
Not here: whether this way may be taken at all, and Spark's settings (session.py).
"""

from __future__ import annotations

import contextlib
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
# C1 only: the queries are over before C2 would pay. One collector thread: the heap is small.
# One that runs out of memory ends: Spark would wait for ever for the thread that did.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
Spawned = Callable[[subprocess.Popen[bytes]], object]
_WITH_JARS = {"spark.jars", "spark.jars.packages"}  # which Spark's own scripts alone resolve for the driver
_REHEARSAL = "2"  # counted on when an analysis comes to load other classes than before


@dataclass(frozen=True)
class Driver:
    """A running driver JVM: `process` ends when its stdin is closed; `port` and `secret` are py4j's."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str


def spark_home() -> Path:
    """Where PySpark is installed. Raises JavaError where it is not."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaError("PySpark is not installed; run `make install`")
    return Path(spec.origin).parent


def key(java: Java) -> str:
    """What recipe and archive are made for: this Java, these jars, these flags, this analysis."""
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    stats = [f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars]
    facts = [_REHEARSAL, str(java.path), java.build, *stats, *FLAGS]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def find_archive(java: Java) -> Path | None:
    """The archive, if there is a whole one. Its name has its size: one cut short crashes the JVM."""
    for archive in cache_dir("cds").glob(f"spark-{key(java)}-*.jsa"):
        if archive.stem.endswith(f"-{archive.stat().st_size}"):
            # Those least lately used go first, when there are too many (archive.py).
            with contextlib.suppress(OSError):
                os.utime(archive)
            return archive
    return None


def own_way(master: str, settings: Iterable[str]) -> bool:
    """Whether the JVM may be started without Spark's scripts: not when the user has set anything for them."""
    theirs = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
    local = master.startswith("local") and os.name == "posix"
    return local and not any(map(os.environ.get, theirs)) and not _WITH_JARS.intersection(settings)


def launch(
    java: Java,
    scratch: Path,
    settings: Mapping[str, str],
    options: Sequence[str],
    spawned: Spawned = lambda process: None,
    behind: Callable[[], bool] = lambda: False,
    jars: Sequence[Path] = (),
) -> Driver:
    """Starts the JVM with Spark's settings, more JVM options and more jars; `spawned` is called with it at
    once.

    `behind`: whether it is kept behind others at the moment: that time does not count, since on a busy
    machine it may not run at all. Raises JavaError with its last words.
    """
    command = _command(java, settings, options, jars)
    info, log = scratch / "gateway", scratch / "jvm.log"
    env = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info), "SPARK_HOME": str(spark_home())}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,  # a terminal's Ctrl-C must not reach it before us
        )
    spawned(process)
    limit = time.monotonic() + START_TIMEOUT_S
    while not info.exists():
        if behind():
            limit = time.monotonic() + START_TIMEOUT_S
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise JavaError(f"Spark's Java did not start: {last_words(log)}")
        time.sleep(0.02)
    port, secret = _read_info(info)
    return Driver(process, port, secret)


def end(driver: Driver, timeout_s: float = 10) -> int | None:
    """Closes the JVM's stdin, on which it ends in good order; killed when it does not. Its exit status."""
    assert driver.process.stdin is not None
    driver.process.stdin.close()
    try:
        return driver.process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        driver.process.kill()
        driver.process.wait()
        return None


@contextmanager
def announced(driver: Driver) -> Iterator[None]:
    """Within, PySpark finds the driver and connects to it instead of starting one."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(driver.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = driver.secret
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def last_words(log: Path) -> str:
    """The end of a JVM's log, in one line."""
    return " / ".join(without_frames(log.read_text(errors="replace"))[-3:]) or "no output"


def without_frames(output: str) -> list[str]:
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
    """Spark's own command line with our options and jars, and our settings before `pyspark-shell`."""
    recipe = _recipe(java)
    if jars:
        # Behind Spark's own: the archive of those holds all the same.
        at = recipe.index("-cp") + 1
        recipe[at] = os.pathsep.join([recipe[at], *map(str, jars)])
    main = recipe.index(_MAIN)
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [recipe[0], *recipe[1:main], *FLAGS, *options, _MAIN, *confs, "pyspark-shell"]


def _recipe(java: Java) -> list[str]:
    """The command line that Spark's launcher would run: asked once, then read from the cache."""
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
        # The Scala version is looked for in build trees only, of which an installation has none.
        env={"SPARK_SCALA_VERSION": "2.13", **os.environ, "SPARK_HOME": str(home)},
    )
    words = [word.decode() for word in done.stdout.split(b"\0")]
    if done.returncode != 0 or _MAIN not in words:
        output = done.stderr.decode(errors="replace").strip()[-300:]
        raise JavaError(f"Spark's launcher did not print how to start it: {output}")
    main = words.index(_MAIN)
    at = words.index("-cp")
    # An archive holds for a class path of jars alone: no directories, and no wildcards to expand anew.
    words[at + 1] = os.pathsep.join(map(str, jars))
    # The first words are empty ones that spark-class's shell loop wants; Java comes right before -cp.
    return [str(java.path), *words[at : main + 1]]
