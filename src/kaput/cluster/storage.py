"""Formats storage for nodes like Kafka's own storage tool, without a JVM for each node.

The tool runs once per distribution; the first records of the metadata log that it writes are kept as a
template. Nodes differ only in meta.properties, which is written here in the same format, and from Kafka 4.4
on in whether they have these records (a test compares ours with the tool's).
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kaput.cache import cache_dir, exclusive
from kaput.cluster.distribution import NO_MAIN_CLASS, Distribution, java_command
from kaput.cluster.properties import NodeLayout
from kaput.cluster.security import with_records
from kaput.errors import BrokerError, UnknownFormat
from kaput.java import Java

_META = "meta.properties"
_META_KEYS = {"cluster.id", "directory.id", "node.id", "version"}
# Where the tool puts the records: up to Kafka 4.3 on every node; from 4.4 on as a snapshot of the metadata
# log, only on nodes that vote.
_CHECKPOINT = "bootstrap.checkpoint"
_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_TIMEOUT_S = 120
_UNSUPPORTED = re.compile(r"Unsupported feature: ([\w.]+)\. ")
_DEFAULT_LEVELS: Mapping[str, int] = MappingProxyType({})


def new_id() -> str:
    """A random id in Kafka's format, without a leading dash, which tools would parse as an option."""
    while True:  # ends: one id in 64 begins with a dash
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(
    layout: NodeLayout,
    cluster_id: str,
    distribution: Distribution,
    java: Java,
    features: Mapping[str, int] = _DEFAULT_LEVELS,
    records: Sequence[bytes] = (),
) -> None:
    """Formats a node's data directory like the storage tool. `features`: levels that differ from the
    defaults. `records`: additional records of the metadata log, such as users (security.py). Raises
    BrokerError if the tool fails; UnknownFormat if it writes what kaput does not know.
    """
    template = _template(distribution, java, features)
    layout.data.mkdir(parents=True, exist_ok=True)
    name = first_records(template, distribution.version)
    if name == _CHECKPOINT or layout.role != "broker":
        first = (template / name).read_bytes()
        place = layout.data / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(with_records(first, records) if records else first)
        place.chmod((template / name).stat().st_mode)  # Kafka's snapshots are read-only
    for directory in layout.all_data:
        lines = [f"cluster.id={cluster_id}", f"directory.id={new_id()}", f"node.id={layout.id}", "version=1"]
        directory.mkdir(exist_ok=True)
        (directory / _META).write_text("\n".join(lines) + "\n")


def first_records(formatted: Path, version: str) -> str:
    """The first records of the metadata log, as this version's storage tool has it. Raises UnknownFormat."""
    files = sorted(str(path.relative_to(formatted)) for path in formatted.rglob("*") if path.is_file())
    for name in (_CHECKPOINT, _SNAPSHOT):
        if set(files) == {_META, name}:
            if not _is_known(formatted / _META):
                raise UnknownFormat(f"the storage tool of Kafka {version} wrote a {_META}")
            return name
    raise UnknownFormat(f"the storage tool of Kafka {version} wrote {', '.join(files) or 'no file'}")


def run_storage_tool(
    properties: Path,
    cluster_id: str,
    distribution: Distribution,
    java: Java,
    features: Mapping[str, int] = _DEFAULT_LEVELS,
) -> None:
    """`kafka-storage format`. Raises BrokerError with the tool's output."""
    args: list[str | Path] = ["format", "--cluster-id", cluster_id, "--config", properties]
    for name, level in sorted(features.items()):
        args += ["--feature", f"{name}={level}"]
    command = java_command(java, distribution, "kafka.tools.StorageTool", args)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise BrokerError(f"Kafka's storage tool took longer than {_TIMEOUT_S} s") from None
    output = done.stdout + done.stderr
    if NO_MAIN_CLASS in output:
        raise UnknownFormat(f"Kafka {distribution.version} has its storage tool in another place")
    unknown = _UNSUPPORTED.search(output)
    if unknown is not None and features.get(unknown[1]) == 0:  # off, as it is wherever it does not exist
        known = {name: level for name, level in features.items() if name != unknown[1]}
        run_storage_tool(properties, cluster_id, distribution, java, known)
        return
    if done.returncode != 0:
        raise BrokerError(f"Kafka's storage tool failed: {output[-1000:]}")


def _template(distribution: Distribution, java: Java, features: Mapping[str, int]) -> Path:
    """What the tool writes for a node that votes. Raises BrokerError, UnknownFormat."""
    root = cache_dir("storage")
    words = "\n".join(f"{name}={level}" for name, level in sorted(features.items()))
    of_features = f"-{hashlib.sha256(words.encode()).hexdigest()[:12]}" if words else ""
    template = root / f"{distribution.id}{of_features}"
    if template.is_dir():
        return template
    with exclusive(root / ".lock", 2 * _TIMEOUT_S), tempfile.TemporaryDirectory(dir=root) as name:
        scratch = Path(name)
        properties = scratch / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.voters=1@127.0.0.1:9093\n"
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
            f"log.dirs={scratch / 'data'}\n"
        )
        run_storage_tool(properties, new_id(), distribution, java, features)
        first_records(scratch / "data", distribution.version)
        if not template.is_dir():  # another kaput may have created it while this one waited
            (scratch / "data").replace(template)
    return template


def _is_known(meta: Path) -> bool:
    """Whether the tool's meta.properties is like those that are written here."""
    lines = [line for line in meta.read_text(errors="replace").splitlines() if not line.startswith("#")]
    settings = dict(line.partition("=")[::2] for line in lines)
    return settings.keys() == _META_KEYS and settings["version"] == "1"
