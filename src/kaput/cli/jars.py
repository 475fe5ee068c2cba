"""Kafka's jars for a run, with a progress bar when they have to be fetched first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.cli.verbs import note

if TYPE_CHECKING:
    from kaput.cluster.distribution import Distribution
    from kaput.java import Java

SPARK_KAFKA = "spark-kafka"  # the lock files of Spark's Kafka source


def distribution_for(version: str, java: Java, kafka_home: Path | None) -> Distribution:
    """The locked jars of that version, or those of an installation. Raises DistributionError."""
    from kaput.cluster.distribution import from_home, resolve

    if kafka_home is not None:
        return from_home(kafka_home)
    with _fetching(f"fetching Kafka {version}") as fetched:
        return resolve(version, java, fetched, note)


def more_for(distribution: Distribution, of: str, java: Java) -> Distribution:
    """The distribution with additional locked jars, fetched on first use. Raises DistributionError."""
    from kaput.cluster.distribution import with_additional_jars

    with _fetching(f"fetching {of} of Kafka {distribution.version}") as fetched:
        return with_additional_jars(distribution, of, java, fetched, note)


def spark_kafka_jars(java: Java) -> tuple[Path, ...]:
    """The locked jars of Spark's Kafka source, fetched on first use. Raises DistributionError."""
    from importlib.metadata import version

    from kaput.cluster.distribution import provide
    from kaput.cluster.lock import read_lock

    locked = read_lock(spark_kafka_version(version("pyspark")), SPARK_KAFKA)
    with _fetching("fetching Spark's source for Kafka") as fetched:
        return provide("Spark's source for Kafka", locked, java, fetched)


def spark_kafka_version(pyspark: str) -> str:
    """The version of Spark's Kafka source for this PySpark, or the newest before it (decision 0071)."""
    from kaput.cluster.lock import version_with

    release = ".".join(pyspark.split(".")[:2])
    return version_with(SPARK_KAFKA, f"{release}.0")


@contextmanager
def _fetching(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, drawn only if something is fetched."""
    from rich.progress import Progress

    from kaput.console import Console

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def fetched(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield fetched
    finally:
        if bar.live.is_started:
            bar.stop()
