"""The set-up of a run in one line of its report."""

from __future__ import annotations

from kaput.report.sections.summary import setup
from kaput.scenario.loader import load_builtin


def test_setup_line_lists_brokers_topics_producers_and_groups() -> None:
    """Brokers with their timeouts, topics with replicas, producers with acks, groups with members."""
    scenario = load_builtin("broker-killed", ["cluster.config.broker.session.timeout.ms=3000"])
    assert setup(scenario) == (
        "3 brokers, broker.session.timeout.ms=3000; orders: 6 partitions, replication factor 3, "
        "min.insync.replicas=2; 1 producer to orders: acks=all, without idempotence; group billing: 3 members"
    )
