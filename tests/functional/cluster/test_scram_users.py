"""Users as kaput writes them into a snapshot and as Kafka's own storage tool does."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.properties import NodeLayout, write_properties
from kaput.cluster.security import MECHANISM, User
from kaput.cluster.storage import first_records, new_id
from kaput.java import Java
from kaput.scenario.model import Cluster
from waiting import PATIENCE_S


@pytest.mark.long
def test_scram_user_record_matches_kafkas_storage_tool(
    distribution: Distribution, java: Java, tmp_path: Path
) -> None:
    """Byte for byte. (A throw-away password: the tool wants it where every process can read it.)"""
    place = NodeLayout(1, "combined", "127.0.0.1", 9092, 9093, tmp_path / "1")
    write_properties(place, [place], Cluster(brokers=1))
    salt = bytes(range(16))
    user = f"name=kaput,password=hush,iterations=4096,salt={base64.b64encode(salt).decode()}"
    words = ["format", "--cluster-id", new_id(), "--config", place.properties, "--add-scram"]
    command = java_command(java, distribution, "kafka.tools.StorageTool", [*words, f"{MECHANISM}=[{user}]"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = (place.data / first_records(place.data, distribution.version)).read_bytes()
    assert User.with_password("kaput", "hush", salt).record() in written
