"""The sources of events that steps wait for: only those this scenario needs.

For another kind of event, add a class with the interface of EventSource (faults/event_triggers.py), and a
line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from kaput.core import qualified
from kaput.evidence.folder import RunFolder
from kaput.faults.event_triggers import EventSource
from kaput.runner.frame_events import FrameEvents
from kaput.runner.member_events import MemberEvents
from kaput.runner.partition_events import MetadataEvents, PolledEvents
from kaput.runner.sampling import SAMPLE_S
from kaput.runner.sites import Site, Sites
from kaput.runner.transaction_events import TransactionEvents
from kaput.scenario.events import GROUP_EVENTS, MARKERS_PENDING, PARTITION_EVENTS
from kaput.scenario.model import Scenario
from kaput.scenario.transactions import transactional_id


def event_sources(
    stack: ExitStack, sites: Sites, scenario: Scenario, folder: RunFolder
) -> Iterator[EventSource]:
    """Creates the sources. The nemesis closes them; `stack` closes clients that they use."""
    wanted = {step.at.event for step in scenario.faults if not isinstance(step.at, str)}
    if wanted & GROUP_EVENTS:
        yield MemberEvents(folder.table("group_events"))
    for site in sites:
        if wanted & PARTITION_EVENTS:
            yield _partition_events(stack, site, first=site is sites.first)
        if MARKERS_PENDING in wanted:
            yield _transaction_events(site, scenario)
    if apis := {step.at.api for step in scenario.faults if not isinstance(step.at, str) and step.at.api}:
        yield FrameEvents(sites.nodes, apis)


def _partition_events(stack: ExitStack, site: Site, first: bool) -> EventSource:
    """Topics of the first of several clusters may be named without the cluster's name."""
    topics = {name: [qualified(site.column, name)] for name in site.topics}
    if first and site.column is not None:
        topics = {name: [*names, name] for name, names in topics.items()}
    if logs := site.cluster.metadata_logs:
        return MetadataEvents(logs, topics)
    return PolledEvents(stack.enter_context(site.cluster.admin(SAMPLE_S)), topics)


def _transaction_events(site: Site, scenario: Scenario) -> EventSource:
    ids = producers_by_id(scenario, site.column)
    return TransactionEvents(lambda: [node.data for node in site.cluster.nodes.values()], ids)


def producers_by_id(scenario: Scenario, cluster: str | None) -> dict[str, str]:
    """Maps transactional ids to `producer N`, for producers that send transactions to that cluster."""
    return {
        transactional_id(number, spec.transactions.id_prefix): f"producer {number}"
        for number, spec in enumerate(scenario.producer_specs())
        if spec.transactions is not None and spec.cluster == cluster
    }
