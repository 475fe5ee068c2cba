"""Spark's source for Kafka comes out later than Spark, or never here: which one is taken then."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from kaput.cli.jars import SPARK_KAFKA, spark_kafka_version
from kaput.cluster.lock import find_lock


@pytest.mark.parametrize(
    ("pyspark", "source"), [("4.2.0", "4.2.0"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.10.2", "4.2.0")]
)
def test_source_is_of_the_same_release_or_the_newest_before(pyspark: str, source: str) -> None:
    """Each of these has a lock file."""
    assert spark_kafka_version(pyspark) == source
    assert find_lock(source, SPARK_KAFKA) is not None


def test_installed_pyspark_is_in_the_range_and_has_a_source() -> None:
    """The range of pyproject.toml is what was tried: 4.2 and 4.3."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if each.startswith("pyspark")] == ["pyspark>=4.2,<4.4"]
    assert find_lock(spark_kafka_version(version("pyspark")), SPARK_KAFKA) is not None
