"""Kafka's programs are in other packages and jars from version to version."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kaput.cluster.distribution import Distribution
from kaput.cluster.metadata_log import dump_tool_class

_OLD, _NEW = "kafka/tools/DumpLogSegments.class", "org/apache/kafka/tools/DumpLogSegments.class"


@pytest.mark.parametrize(
    ("version", "jar", "entry"),
    [
        ("3.9.2", "kafka_2.13-3.9.2.jar", _OLD),
        ("4.1.2", "kafka_2.13-4.1.2.jar", _OLD),  # not yet in kafka-tools, as its number would suggest
        ("4.3.1", "kafka-tools-4.3.1.jar", _NEW),
        ("4.4.0", "kafka-tools-4.4.0.jar", _NEW),
    ],
)
def test_dump_tool_class_is_found_in_the_jars(tmp_path: Path, version: str, jar: str, entry: str) -> None:
    """Else no change of leader would be known, and no run conclusive."""
    with zipfile.ZipFile(tmp_path / jar, "w") as made:
        made.writestr(entry, "")
    (tmp_path / "other.jar").write_text("never opened")
    jars = (tmp_path / "other.jar", tmp_path / jar)
    found = dump_tool_class(Distribution(version, jars, "id"))
    assert found.replace(".", "/") + ".class" == entry
