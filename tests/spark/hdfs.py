"""A real HDFS on this machine: a NameNode and a DataNode, each a JVM, from Hadoop's jar for such clusters."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from kaput.cluster.distribution import provide
from kaput.cluster.lock import LockedJar
from kaput.cluster.network.loopback import HOST, Ports
from kaput.java import find_java

# Of the version of the Hadoop clients among PySpark's jars, which it needs beside it.
_JAR = LockedJar(
    "org.apache.hadoop",
    "hadoop-client-minicluster",
    "3.5.0",
    "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
)
_SERVER = "org.apache.hadoop.hdfs.server"
_UP_S = 180
SPARK_HOME = Path(pyspark.__file__).parent
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
"""


class Hdfs:
    """One NameNode and one DataNode; `url` is the root of the file system."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        ports = Ports()
        stack.callback(ports.close)
        port, self._web, *more = ports.reserve(5)
        self.url = f"hdfs://{HOST}:{port}"
        jars = [*provide("Hadoop", [_JAR], find_java()), *sorted((SPARK_HOME / "jars").glob("*.jar"))]
        self._class_path = os.pathsep.join(map(str, [directory / "conf", *jars]))
        (directory / "conf").mkdir()
        (directory / "tmp").mkdir()
        (directory / "conf" / "log4j2.properties").write_text(_LOG4J)
        for name in ("core-site.xml", "hdfs-site.xml"):
            (directory / "conf" / name).write_text(_site(self._settings(port, more)))
        self._run("format", f"{_SERVER}.namenode.NameNode", "-format", "-force", "-nonInteractive").wait(
            _UP_S
        )
        self._name_node = self._run("namenode", f"{_SERVER}.namenode.NameNode")
        self._data_node = self._run("datanode", f"{_SERVER}.datanode.DataNode")
        self._until_up()

    def _settings(self, port: int, more: list[int]) -> dict[str, str]:
        data, ipc, web = more
        return {
            "dfs.namenode.rpc-address": f"{HOST}:{port}",
            "dfs.namenode.http-address": f"{HOST}:{self._web}",
            "dfs.namenode.name.dir": (self._directory / "name").as_uri(),
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.datanode.address": f"{HOST}:{data}",
            "dfs.datanode.ipc.address": f"{HOST}:{ipc}",
            "dfs.datanode.http.address": f"{HOST}:{web}",
            "dfs.datanode.hostname": HOST,
            "dfs.datanode.data.dir": (self._directory / "data").as_uri(),
            "dfs.datanode.du.reserved": "0",
            "dfs.heartbeat.interval": "1",
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "fs.defaultFS": self.url,
            "hadoop.tmp.dir": str(self._directory / "tmp"),
        }

    def _run(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._directory / f"{name}.log").open("wb"))
        flags = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        scratch = f"-Djava.io.tmpdir={self._directory / 'tmp'}"
        process = subprocess.Popen(
            [str(find_java().path), *flags, scratch, "-cp", self._class_path, main, *arguments],
            stdout=log,
            stderr=log,
        )
        self._stack.callback(_end, process)
        return process

    def _until_up(self) -> None:
        """Until the NameNode has left its safe mode and knows a DataNode that lives."""
        limit = time.monotonic() + _UP_S
        while not self._up():
            for name, process in (("namenode", self._name_node), ("datanode", self._data_node)):
                assert process.poll() is None, self._said(name)
            assert time.monotonic() < limit, "HDFS did not come up"
            time.sleep(0.1)

    def _said(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()[-2000:]

    def _up(self) -> bool:
        query = f"http://{HOST}:{self._web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(query, timeout=5) as answer:
                (state,) = json.load(answer)["beans"]
        except (OSError, ValueError):
            return False
        return bool(state["FSState"] == "Operational" and state["NumLiveDataNodes"] == 1)

    def put(self, spark: SparkContext, path: Path, there: str) -> None:
        """Copies a directory, through Hadoop's client in a JVM that runs already."""
        jvm: Any = spark._jvm
        hadoop = jvm.org.apache.hadoop
        settings = hadoop.conf.Configuration()
        settings.set("dfs.replication", "1")
        files = hadoop.fs.FileSystem.newInstance(jvm.java.net.URI(self.url), settings)
        try:
            files.copyFromLocalFile(hadoop.fs.Path(str(path)), hadoop.fs.Path(self.url + there))
        finally:
            files.close()

    def read(self, path: str) -> bytes:
        """A file's bytes, from the DataNode by HTTP."""
        return self._ask(f"{path}?op=OPEN")

    def names(self, path: str) -> list[str]:
        found = json.loads(self._ask(f"{path}?op=LISTSTATUS"))["FileStatuses"]["FileStatus"]
        return [str(one["pathSuffix"]) for one in found]

    def _ask(self, what: str) -> bytes:
        with urllib.request.urlopen(f"http://{HOST}:{self._web}/webhdfs/v1{what}", timeout=_UP_S) as answer:
            return bytes(answer.read())

    def kill_data_node(self) -> None:
        """As a machine that loses power."""
        _end(self._data_node)


@contextmanager
def hdfs(directory: Path) -> Iterator[Hdfs]:
    """The file system, up; gone afterwards."""
    with ExitStack() as stack:
        yield Hdfs(directory, stack)


def _site(settings: dict[str, str]) -> str:
    rows = [
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    ]
    return "<configuration>\n" + "\n".join(rows) + "\n</configuration>\n"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
