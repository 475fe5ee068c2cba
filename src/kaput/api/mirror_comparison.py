"""Compares the clusters of a mirror at the end of a run, like `kaput compare`, in the run's Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.api.scratch import Scratch
    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.runner.mirrors.drain import CompareMirror
    from kaput.scenario.mirrors import Mirror


def mirror_comparison(session: Callable[[], SparkContext], scratch: Scratch) -> CompareMirror:
    """A function that compares the topics of a mirror. `scratch`: for temporary copies of records."""

    def compare(mirror: Mirror, source: ClusterAddress, target: ClusterAddress) -> Mapping[str, Any]:
        from kaput.compare.comparing import ComparisonRequest, MirrorComparison

        request = ComparisonRequest(
            source,
            target,
            topics=mirror.topics,
            policy=mirror.policy,
            wait_s=0.0,  # the drain has already waited for the mirror
        )
        folder = scratch.directory()
        return MirrorComparison(request, folder, session, lambda _what, _done, _total: None).run().as_json()

    return compare
