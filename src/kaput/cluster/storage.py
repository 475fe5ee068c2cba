"""Formats storage for nodes like Kafka's own storage tool, without a JVM for each node.

The tool runs once per distribution; its output is kept as a template. Nodes differ only in meta.properties,
which is written here in the same format (a test compares the two).
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kaput.cache import cache_dir, exclusive
from kaput.cluster.credentials import with_records
from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import java_command
from kaput.errors import BrokerError
from kaput.java import Java

CHECKPOINT = "bootstrap.checkpoint"
_TIMEOUT_S = 120
_DEFAULT_LEVELS: Mapping[str, int] = MappingProxyType({})


def new_id() -> str:
    """A random id in Kafka's format, without a leading dash, which tools would parse as an option."""
    while True:  # ends: one id in 64 begins with a dash
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(
    data: Path,
    node_id: int,
    cluster_id: str,
    distribution: Distribution,
    java: Java,
    features: Mapping[str, int] = _DEFAULT_LEVELS,
    records: Sequence[bytes] = (),
) -> None:
    """Formats `data` like the storage tool. `features`: levels that differ from the defaults. `records`:
    additional records of the metadata log, such as users (credentials.py).

    Raises BrokerError if the tool fails.
    """
    template = _template(distribution, java, features)
    data.mkdir(parents=True, exist_ok=True)
    (data / CHECKPOINT).write_bytes(
        with_records(template.read_bytes(), records) if records else template.read_bytes()
    )
    lines = [f"cluster.id={cluster_id}", f"directory.id={new_id()}", f"node.id={node_id}", "version=1"]
    (data / "meta.properties").write_text("\n".join(lines) + "\n")


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
    if done.returncode != 0:
        raise BrokerError(f"Kafka's storage tool failed: {(done.stdout + done.stderr)[-1000:]}")


def _template(distribution: Distribution, java: Java, features: Mapping[str, int]) -> Path:
    root = cache_dir("storage")
    words = "\n".join(f"{name}={level}" for name, level in sorted(features.items()))
    of_features = f"-{hashlib.sha256(words.encode()).hexdigest()[:12]}" if words else ""
    template = root / f"{distribution.id}{of_features}.checkpoint"
    if template.is_file():
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
        (scratch / "data" / CHECKPOINT).replace(template)
    return template
