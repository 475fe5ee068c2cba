"""Which topics each group reads: those that the scenario says, by name or by pattern; of a group that the
scenario does not have, those that its own evidence names.
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

_PATTERN = "^"  # what every client takes for the beginning of a pattern


def matching(group: Group, topics: Collection[str]) -> frozenset[str]:
    """Those of the topics of its cluster that a group subscribes to. Raises EvidenceError for a pattern that
    is none.
    """
    parts = {topic: cluster_and_topic(topic) for topic in topics}
    own = {topic: name for topic, (cluster, name) in parts.items() if cluster == group.cluster}
    return frozenset(
        topic for topic, name in own.items() if any(_means(group, word, name) for word in group.topics)
    )


def _means(group: Group, word: str, topic: str) -> bool:
    if not word.startswith(_PATTERN):
        return word == topic
    try:
        pattern = re.compile(word)
    except re.error as error:
        raise EvidenceError(
            f"scenario.yaml: group {group.id}: {word!r} is not a pattern of topics ({error})"
        ) from None
    # Brokers and Kafka's own client want the whole name to match, librdkafka its beginning.
    whole = group.type != "classic" or group.client == "java"
    return bool(pattern.fullmatch(topic) if whole else pattern.match(topic))


def named(
    evidence: Evidence, events: Iterable[Mapping[str, Any]], groups: Collection[str]
) -> dict[str, frozenset[str] | None]:
    """By group: the topics that its members were assigned or that its outputs are made of; where there are
    none, those that it was delivered records of. None for a group of which no row names a topic.
    """
    if not groups:
        return {}
    first: dict[str, set[str]] = {group: set() for group in groups}
    for event in events:
        if event["group"] in first and event["topic"] is not None:
            first[event["group"]].add(event["topic"])
    for group, topic in _pairs(evidence, ("outputs", "share_events"), groups):
        first[group].add(topic)
    for group, topic in _pairs(evidence, ("deliveries",), {g for g, topics in first.items() if not topics}):
        first[group].add(topic)
    return {group: frozenset(topics) or None for group, topics in first.items()}


def _pairs(evidence: Evidence, tables: Iterable[str], groups: Collection[str]) -> Iterable[tuple[str, str]]:
    """The groups, of these, and the topics of the rows of big tables, a row group at a time."""
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
