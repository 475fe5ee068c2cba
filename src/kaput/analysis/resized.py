"""The findings of a topic that was resized."""

from __future__ import annotations

from kaput.analysis.account import Account, Resized
from kaput.analysis.inputs import Inputs
from kaput.evidence.findings_parts import ResizedForGroup, ResizedTopic


def resized_topic(given: Inputs, account: Account, one: Resized) -> ResizedTopic:
    """One topic; of groups those that read it."""
    return ResizedTopic(
        topic=one.topic,
        partitions_before=sum(topic == one.topic for topic, _ in given.expected_places),
        partitions=sum(place[0] == one.topic for place in {*given.expected_places, *given.ends}),
        partitions_written=one.written,
        keys=one.keys,
        keys_moved=one.moved,
        groups=[
            ResizedForGroup(
                group=group,
                partitions_read=one.read[index],
                out_of_order_by_key=one.out_of_order.get(index),
                stored_too_early=account.too_early.get((index, given.names.topics.index(one.topic)), 0),
            )
            for index, group in enumerate(given.groups)
            if any(place[0] == one.topic for place in given.places_of(group))
        ],
    )
