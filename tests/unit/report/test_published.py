"""Published figures are next to ours."""

from __future__ import annotations

from typing import Any

from kaput.evidence.findings import Findings
from kaput.report.sections.published import PUBLISHED, compared_with_published
from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import load_builtin


def test_every_published_figure_has_a_built_in_scenario() -> None:
    """No figure hangs at a name that nobody can run; every built-in has its figure or says there is none."""
    without = {n for n in builtin_names() if "No published" in load_builtin(n).description}
    assert set(PUBLISHED) == set(builtin_names()) - {"noop"} - without


def test_the_share_of_a_failover_is_compared_with_the_share_of_brokers(raw: dict[str, Any]) -> None:
    """A tenth of the brokers killed, and the affected share next to it."""
    raw["run"]["scenario"] = "broker-failover-10x1"
    published, ours = compared_with_published(Findings.model_validate(raw))
    assert "42 of 393 (about 10 %) over about 800 ms" in published
    assert "1,234 of 5,678 messages affected (21.7 %) over 9,900 ms (killed: 10.0 % of the brokers)" in ours


def test_stuck_messages_are_compared_with_the_incident(raw: dict[str, Any]) -> None:
    """Where nothing was, nothing is reported of it."""
    raw["run"]["scenario"] = "replication-factor-1"
    assert "stuck" not in compared_with_published(Findings.model_validate(raw))[1]
    raw["faults"][0]["stuck"] = {"billing": 4321}
    published, ours = compared_with_published(Findings.model_validate(raw))
    assert "11 messages stuck" in published
    assert f"4,321 messages stuck for billing until after the heal of {raw['faults'][0]['id']}" in ours


def test_custom_scenario_has_no_published_figures(raw: dict[str, Any]) -> None:
    """An unknown name renders no lines."""
    raw["run"]["scenario"] = "mine"
    assert compared_with_published(Findings.model_validate(raw)) == []


def test_group_figures_are_compared_with_published_ones(raw: dict[str, Any]) -> None:
    """Each group, with what it was given twice and never; slumps where a rate was ordered."""
    raw["run"]["scenario"] = "consumer-failover"
    next(a for a in raw["anomalies"] if a["name"] == "redelivered" and a["group"] == "billing")["count"] = 13
    slump = {"what": "acked", "below_per_s": 800.0, "longest_s": 11, "total_s": 12}
    raw["rates"]["slumps"] = [slump]
    published, ours = compared_with_published(Findings.model_validate(raw))
    assert "each once" in published
    assert "billing was delivered 39,977 messages, 13 of them redelivered" in ours
    assert "acked below 800 per second for up to 11 s" in ours


def test_what_is_stored_twice_is_not_delivered_once(raw: dict[str, Any]) -> None:
    """Each of its records may be."""
    raw["run"]["scenario"] = "consumer-failover"
    for anomaly in raw["anomalies"]:
        if anomaly["name"] in ("redelivered", "duplicate"):
            anomaly["count"] = 6 if anomaly["name"] == "duplicate" else 0
    _, ours = compared_with_published(Findings.model_validate(raw))
    assert "messages, each record once (6 of them stored more than once)" in ours


def test_longest_silence_is_one_from_the_effect_on(raw: dict[str, Any]) -> None:
    """Where published figures are of stalls; the partition may have been silent before."""
    raw["run"]["scenario"] = "leader-kill-lagging-acks-1"
    _, ours = compared_with_published(Findings.model_validate(raw))
    assert "no acknowledgement of a partition for up to 10,012 ms after a fault took effect" in ours


def test_records_read_twice_after_a_cluster_switch_are_shown(raw: dict[str, Any]) -> None:
    """Its offsets there are others, so that nothing is redelivered."""
    raw["run"]["scenario"] = "dc1-netsplit-half"
    switch = {"group": "billing", "read_twice": 2027, "skipped": 0}
    raw["plan"] = {"steps": [], "groups": [switch]}
    _, ours = compared_with_published(Findings.model_validate(raw))
    assert "2,027 once more in another cluster" in ours
