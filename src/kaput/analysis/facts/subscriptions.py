"""Which topics each group reads: those of the scenario, by name or pattern; for a group that the scenario
lacks, those that the evidence names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from kaput.core import cluster_and_topic, qualified
from kaput.errors import EvidenceError
from kaput.evidence.common_columns import CLUSTER
from kaput.evidence.parquet import footer_of, open_file, read_row_group
from kaput.evidence.reading import Evidence
from kaput.scenario.groups import Group

_PATTERN = "^"  # every client treats a name beginning with it as a pattern


def matching(group: Group, topics: Collection[str]) -> frozenset[str]:
    """The topics of its cluster that a group subscribes to. Raises EvidenceError for an invalid pattern."""
    parts = {topic: cluster_and_topic(topic) for topic in topics}
    own = {topic: name for topic, (cluster, name) in parts.items() if cluster == group.cluster}
    return frozenset(
        topic
        for topic, name in own.items()
        if any(_matches(group, name_or_pattern, name) for name_or_pattern in group.topics)
    )


def _matches(group: Group, name_or_pattern: str, topic: str) -> bool:
    if not name_or_pattern.startswith(_PATTERN):
        return name_or_pattern == topic
    try:
        pattern = re.compile(name_or_pattern)
    except re.error as error:
        raise EvidenceError(
            f"scenario.yaml: group {group.id}: {name_or_pattern!r} is not a pattern of topics ({error})"
        ) from None
    # Brokers and Kafka's own client match the whole name, librdkafka its beginning.
    whole = group.type != "classic" or group.client == "java"
    return bool(pattern.fullmatch(topic) if whole else pattern.match(topic))


def named(
    evidence: Evidence, events: Iterable[Mapping[str, Any]], groups: Collection[str]
) -> dict[str, frozenset[str] | None]:
    """By group: the topics that its members were assigned or that were inputs of its outputs; if there are
    none, those that were delivered to it. None for a group without any.
    """
    if not groups:
        return {}
    first: dict[str, set[str]] = {group: set() for group in groups}
    for event in events:
        if event["group"] in first and event["topic"] is not None:
            first[event["group"]].add(event["topic"])
    for group, topic in _groups_and_topics(evidence, ("outputs", "share_events"), groups):
        first[group].add(topic)
    for group, topic in _groups_and_topics(
        evidence, ("deliveries",), {g for g, topics in first.items() if not topics}
    ):
        first[group].add(topic)
    return {group: frozenset(topics) or None for group, topics in first.items()}


def _groups_and_topics(
    evidence: Evidence, tables: Iterable[str], groups: Collection[str]
) -> Iterable[tuple[str, str]]:
    """The distinct (group, topic) of big tables, for these groups, per row group."""
    for table in tables if groups else ():
        found = evidence.tables[table]
        columns = ["group", "topic", *([] if CLUSTER in found.lacking else [CLUSTER])]
        for path in found.files:
            for index in range(footer_of(path).num_row_groups):
                rows = read_row_group(open_file(path, columns), path, index, columns)
                plain = pa.table({name: rows[name].cast(pa.string()) for name in columns})
                for row in plain.group_by(columns).aggregate([]).to_pylist():
                    if row["group"] in groups:
                        yield row["group"], qualified(row.get(CLUSTER), row["topic"])
