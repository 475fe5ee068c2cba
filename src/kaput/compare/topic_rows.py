"""Compares topics: partitions, replicas and settings. Pure: descriptions in, rows out."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, Row
from kaput.compare.description import TopicDescription
from kaput.core import plural

# MirrorMaker does not copy these by default (config.properties.exclude), since clusters differ in size.
_NOT_COPIED = {
    "follower.replication.throttled.replicas": "throttles of one cluster's replicas",
    "leader.replication.throttled.replicas": "throttles of one cluster's replicas",
    "min.insync.replicas": "mirrors leave it to the target, whose replicas are its own",
    "unclean.leader.election.enable": "mirrors leave it to the target",
    "message.timestamp.difference.max.ms": "mirrors leave it to the target",
    "message.timestamp.before.max.ms": "mirrors leave it to the target",
    "message.timestamp.after.max.ms": "mirrors leave it to the target",
    "message.format.version": "a setting of older releases",
}


def missing(source: TopicDescription, target_name: str, records: int) -> Row:
    """The row for a topic that the target does not have."""
    return Row(
        f"topic {source.name}",
        "topic",
        LOST,
        f"The target has no topic {target_name}: {plural(records, 'offset')} of the source are "
        "missing, and no client of the topic can continue.",
        counts={"partitions": source.partitions, "offsets": records},
    )


def rows(source: TopicDescription, target: TopicDescription) -> list[Row]:
    """The rows for partitions, replicas and settings of one topic."""
    return [_partitions(source, target), _replicas(source, target), *_settings(source, target)]


def _partitions(source: TopicDescription, target: TopicDescription) -> Row:
    counts = {"source": source.partitions, "target": target.partitions}
    what = f"topic {source.name}"
    if source.partitions == target.partitions:
        return Row(what, "partitions", IDENTICAL, "Keys stay in their partitions.", counts=counts)
    fewer = target.partitions < source.partitions
    meaning = (
        "Partitions are missing in the target, with all their records and positions."
        if fewer
        else "Producers that partition by key will send keys to different partitions than before: order by "
        "key breaks."
    )
    return Row(what, "partitions", LOST, meaning, counts=counts)


def _replicas(source: TopicDescription, target: TopicDescription) -> Row:
    counts = {"source": source.replicas, "target": target.replicas}
    what = f"topic {source.name}"
    if source.replicas == target.replicas:
        return Row(
            what, "replicas", IDENTICAL, "The same number of brokers may fail as before.", counts=counts
        )
    more = "more" if target.replicas > source.replicas else "fewer"
    return Row(
        what,
        "replicas",
        BY_DESIGN,
        f"After a failover {more} brokers may fail before records are lost.",
        "a mirror creates topics with a replication factor of its own",
        counts,
    )


def _settings(source: TopicDescription, target: TopicDescription) -> list[Row]:
    what = f"topic {source.name}"
    if not source.config or not target.config:
        return []
    # A setting that only one release has counts as its default in the other.
    names = sorted(source.config.keys() & target.config.keys()) + sorted(
        source.own.keys() - target.config.keys()
    )
    different = [name for name in names if source.config.get(name) != target.config.get(name)]
    examples = [
        {"setting": name, "source": source.config.get(name), "target": target.config.get(name)}
        for name in different
    ]
    own = [each for each in examples if each["setting"] in _NOT_COPIED]
    others = [each for each in examples if each["setting"] not in _NOT_COPIED]
    found = []
    if others:
        found.append(
            Row(
                what,
                "config",
                LOST,
                f"The target keeps records by different rules: {_setting_list(others)}.",
                counts={"settings": len(others)},
                examples=others,
            )
        )
    if own:
        reasons = "; ".join(dict.fromkeys(_NOT_COPIED[str(each["setting"])] for each in own))
        found.append(
            Row(
                what,
                "config" if not others else "config of its own",
                BY_DESIGN,
                f"Check that these are what writers need after a failover: {_setting_list(own)}.",
                reasons,
                {"settings": len(own)},
                own,
            )
        )
    return found or [
        Row(what, "config", IDENTICAL, "Records are kept by the same rules.", counts={"settings": len(names)})
    ]


def _setting_list(examples: Sequence[dict[str, str | None]]) -> str:
    shown = [f"{each['setting']} {each['source']} -> {each['target']}" for each in examples[:3]]
    more = len(examples) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
