"""The question that everybody asks first, answered by two built-in scenarios: what do we lose, and for how
long does everything stop, if a broker is killed, and if it is cut off?

acks=all, min.insync.replicas=2, 6 partitions, a group of 3.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from driving import UNHURRIED, Kaput
from kaput.core import MS

pytestmark = pytest.mark.usefixtures("way")

# A third of the built-ins' session; the fault outlasts it by far, also on a slow machine.
SHORT = [
    "--set", "cluster.config.broker.session.timeout.ms=3000",
    "--set", "cluster.config.broker.heartbeat.interval.ms=500",
    "--set", "cluster.config.replica.lag.time.max.ms=5000",
    "--set", "workload.producers.0.messages=25000",
    "--set", "faults.0.at=5s",
    "--set", "faults.0.for=16s",
]  # fmt: skip
PARTITIONS = {f"orders/{number}" for number in range(6)}


Findings = dict[str, Any]


@pytest.mark.long
def test_report_of_losses_and_outage_of_killed_and_isolated_brokers(kaput: Kaput) -> None:
    """One command. The first lines, findings.json and the table give what was lost, how long each partition
    and the whole service stood still, and what ended that.
    """
    done = kaput.call(
        "run", "broker-killed", "broker-isolated", "--network", "namespaces", "--reports", "--no-page",
        "--runs", str(kaput.runs), *UNHURRIED, *SHORT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reports = done.stdout
    assert reports.count("25,000 sent, 25,000 acknowledged, no acknowledged message lost.") == 2
    found = [_findings(kaput.runs, name) for name in ("broker-killed", "broker-isolated")]
    for findings in found:
        _assert_each_partition_is_told(findings)
        _assert_the_first_lines_tell_the_longest(findings, reports)
    ends = [_fault(findings)["unavailable_ended_by"] for findings in found]
    # Well before the broker came back; on a busy machine the producer may be late to go on.
    assert ends[0] in ("election", "client")
    # The producer hears of the new leader, or goes on asking the old one.
    assert ends[1] in ("election", "heal", "client")
    table = _table(reports)
    assert table["outage ended by"] == ends
    assert table["lost"] == ["0", "0"]
    assert table["unavailable ms"] == [f"{_fault(findings)['unavailable_ms']:,.0f}" for findings in found]
    assert table["standstill ms"] == [f"{_longest_of_all(findings):,.0f}" for findings in found]


def _findings(runs: Path, scenario: str) -> Findings:
    (path,) = runs.glob(f"*-{scenario}-*/findings.json")
    return dict(json.loads(path.read_text()))


def _fault(findings: Findings) -> Findings:
    (fault,) = findings["faults"]
    return dict(fault)


def _longest_of_all(findings: Findings) -> float:
    """The longest time (ms) without any acknowledgement at all."""
    (service,) = [one for one in findings["availability"] if one["group"] is None and one["topic"] is None]
    return float(service["longest_standstill_ms"])


def _assert_each_partition_is_told(findings: Findings) -> None:
    """How long each stood still adds up to its standstills; the longest has an end, and a cause."""
    of_partitions = {
        f"{one['topic']}/{one['partition']}": one
        for one in findings["availability"]
        if one["group"] is None and one["topic"] is not None
    }
    assert set(of_partitions) == PARTITIONS
    assert sum(one["messages"] for one in of_partitions.values()) == 25_000
    for name, one in of_partitions.items():
        standstills = [
            each
            for each in findings["standstills"]
            if each["group"] is None and f"{each['topic']}/{each['partition']}" == name
        ]
        assert sum(each["length_ms"] for each in standstills) == pytest.approx(one["standstill_s"] * 1_000)
        # On a busy machine there may be shorter ones, which nothing in the cluster ended.
        longest = max(standstills, key=lambda each: each["length_ms"])
        assert longest["ended_by"] in ("election", "isr", "heal", "client")
        assert longest["cause"].startswith(("1-kill", "1-isolate"))
    assert of_partitions["orders/0"]["longest_standstill_ms"] >= 1_000
    _assert_the_outage_is_the_longest_standstill(findings)


def _assert_the_outage_is_the_longest_standstill(findings: Findings) -> None:
    """Of any partition that the fault reached, from when it took effect. A standstill begins with the first
    message that waits, so it may be shorter by the second that a partition may be without messages.
    """
    fault = _fault(findings)
    since = fault["effective_ns"]
    longest_ms = max(
        (each["to_ns"] - max(each["from_ns"], since)) / MS
        for each in findings["standstills"]
        if each["group"] is None and each["topic"] is not None
    )
    assert longest_ms - 1 <= fault["unavailable_ms"] <= longest_ms + 1_000


def _assert_the_first_lines_tell_the_longest(findings: Findings, reports: str) -> None:
    """Of all partitions if nothing at all was acknowledged for a second; and who ended it."""
    if (longest_ms := _longest_of_all(findings)) >= 1_000:
        longest = f"{longest_ms / 1_000:.1f} s"  # on a busy machine one of several
        told = (f"Nothing at all was acknowledged for {longest}", f"; the longest: {longest}")
        assert any(words in reports for words in told), reports[:1_000]
    if _fault(findings)["unavailable_ended_by"] == "heal":
        assert "ended only when the fault was healed; a longer fault means a longer outage" in reports


def _table(text: str) -> dict[str, list[str]]:
    """The figures of the runs in the last table: a line for each run, and one for those that all share."""
    lines = text[text.rindex("\n\nRuns\n") :].splitlines()[3:]
    heads = re.split(r" {2,}", lines[0].strip())
    cells = [re.split(r" {2,}", line.strip()) for line in lines[1:3]]
    found = {head: [row[column] for row in cells] for column, head in enumerate(heads)}
    for name, _, value in (each.rpartition(" ") for each in lines[3].partition(": ")[2].split(", ")):
        found[name] = [value, value]
    return found
