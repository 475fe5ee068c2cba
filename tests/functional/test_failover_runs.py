"""Failing over to a second data centre by a plan: what it costs, counted from the evidence with Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from driving import Kaput, Result
from kaput.core import NEWEST_KAFKA

Message = tuple[int, int]


def messages(rows: list[dict[str, Any]], cluster: str | None = None) -> list[Message]:
    """Who sent each row's message, and its number; of one cluster, or of all."""
    return [(row["producer"], row["seq"]) for row in rows if cluster in (None, row["cluster"])]


def steps(result: Result) -> dict[str, dict[str, Any]]:
    """The plan's rows by kind, after all of them were done."""
    rows = {row["kind"]: row for row in result.rows("plan")}
    assert {row["outcome"] for row in rows.values()} == {"done"}, [row["proof"] for row in rows.values()]
    return rows


def read_twice(result: Result) -> int:
    """Messages that a group was given in both clusters."""
    given = result.rows("deliveries")
    return len(set(messages(given, "dc1")) & set(messages(given, "dc2")))


def explained(result: Result) -> int:
    """How far behind the group began in dc2, in records, over all partitions."""
    rows = [row for row in result.rows("mirror") if row["kind"] == "translated"]
    assert len(rows) == 2, "one for each partition"
    return sum(row["source_offset"] - row["target_offset"] for row in rows)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("dc1", [{}, {"kafka": "3.9.2"}, {"security": "scram-tls"}], ids=str)
def test_a_planned_switch_loses_and_skips_nothing(kaput: Kaput, dc1: dict[str, str]) -> None:
    """Every message has an outcome; what is read twice is what the translated positions explain. Also if
    dc1 is older than dc2, or has TLS, users and ACLs, which dc2 does not have.
    """
    changes = [word for key, value in dc1.items() for word in ("--set", f"clusters.dc1.{key}={value}")]
    result = kaput.run("planned-switchover", *changes)
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.findings["run"]["kafka"] == (f"3.9.2, {NEWEST_KAFKA}" if "kafka" in dc1 else NEWEST_KAFKA)
    assert not [path for path in result.folder.rglob("*.properties") if "password=" in path.read_text()]
    sends = result.rows("sends")
    assert Counter(row["outcome"] for row in sends) == {"acked": 10_000}
    assert {row["cluster"] for row in sends} == {"dc1", "dc2"}
    stored = result.rows("log")
    assert set(messages(stored, "dc2")) == set(messages(sends)), "dc2 has everything"
    assert sorted(messages(stored, "dc1")) == sorted(messages(sends, "dc1"))
    assert set(messages(result.rows("deliveries"))) == set(messages(sends)), "nothing is skipped"
    assert read_twice(result) == explained(result) <= 2 * 101
    (plan,) = [result.findings["plan"]]
    assert plan["groups"][0]["read_twice"] == read_twice(result) and plan["groups"][0]["skipped"] == 0
    done = steps(result)
    last, first = done["fence"]["started_ns"], done["move-producers"]["ended_ns"]
    assert 0 < plan["rto_writes"]["seconds"] < (first - last) / 1e9 + 3


@pytest.mark.alone
def test_netsplit_loses_unmirrored_messages(kaput: Kaput) -> None:
    """The recovery point is what a plain reader finds to differ between both clusters, to the message."""
    shorter = ("workload.producers.0.messages=6000", "faults.0.at=3s", "faults.0.for=16s")
    result = kaput.run("dc1-netsplit", *(word for change in shorter for word in ("--set", change)))
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.fault("isolate")["bit"]
    done = steps(result)
    assert "no broker of dc1 answers" in done["notice"]["proof"]
    acked = [row for row in result.rows("sends") if row["outcome"] == "acked"]
    stored = result.rows("log")
    missing = set(messages(acked, "dc1")) - set(messages(stored, "dc2"))
    assert set(messages(acked, "dc1")) <= set(messages(stored, "dc1")), "nothing is lost: dc1 has it"
    (mirror,) = result.findings["mirrors"]
    assert (mirror["unmirrored"], mirror["drained"]) == (len(missing), False)
    assert set(messages(acked, "dc2")) <= set(messages(stored, "dc2"))
    assert result.findings["plan"]["groups"][0]["read_twice"] == read_twice(result)
    assert result.findings["plan"]["rto_writes"]["seconds"] > 3.0
    outcomes = {(row["cluster"], row["outcome"]) for row in result.rows("sends")}
    assert outcomes == {("dc1", "acked"), ("dc1", "unknown"), ("dc2", "acked")}


@pytest.mark.alone
@pytest.mark.long
def test_unmirrored_messages_are_skipped_after_failback(kaput: Kaput) -> None:
    """Nothing acknowledged is missing in dc1; what the group is never given is listed, and permitted."""
    result = kaput.run("dc1-dies-and-returns")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    steps(result)
    sends, stored = result.rows("sends"), result.rows("log")
    acked = set(messages([row for row in sends if row["outcome"] == "acked"]))
    assert acked <= set(messages(stored, "dc1")), "dc1 has everything again"
    skipped = set(messages(stored, "dc1")) - set(messages(result.rows("deliveries")))
    assert skipped and not skipped & set(messages(stored, "dc2"))
    for name in ("unseen", "translated-ahead"):
        (found,) = [a for a in result.findings["anomalies"] if a["name"] == name]
        assert (found["count"], found["permitted"]) == (len(skipped), len(skipped))


@pytest.mark.alone
@pytest.mark.long
def test_half_netsplit_merges_both_sides_with_key_conflicts(kaput: Kaput) -> None:
    """Both clusters were written to: nothing is lost, and what came behind what is counted."""
    result = kaput.run("dc1-netsplit-half")
    assert result.status == 0 and result.findings["verdict"] == "held", result.findings["reasons"]
    sends, stored = result.rows("sends"), result.rows("log")
    home = {(row["producer"], row["seq"]): row["cluster"] for row in sends}
    assert set(home.values()) == {"dc1", "dc2"} and set(messages(stored, "dc2")) == set(home)
    merged, before = 0, Counter[tuple[int, int]]()
    conflicts: set[tuple[int, int]] = set()
    own_last: dict[tuple[int, int], bool] = {}
    for row in sorted(stored, key=lambda row: row["offset"]):
        key = row["partition"], row["seq"] % 100
        own = home[row["producer"], row["seq"]] == "dc2"
        if row["cluster"] == "dc2":
            own_last[key] = own
            before[row["partition"], -1] += own
            before[key] += own
            merged += not own and before[row["partition"], -1] > 0
            if not own and before[key]:
                conflicts.add(key)
    (mirror,) = result.findings["mirrors"]
    assert merged and mirror["merged"] == merged and mirror["conflicting_keys"] == len(conflicts) == 100
    assert mirror["own_last_keys"] == sum(own_last[key] for key in conflicts)
