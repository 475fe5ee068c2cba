"""Every built-in shows what its title says: its expectations are met, and so is what they cannot say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from dedup_scoring import FILTERS, Score, first_copies, read_run_log, score_of

from driving import Kaput, Result
from kaput.core import NEWEST_KAFKA
from kaput.scenario.builtin import builtin_names

# Kafka breaks its promise there, as expected.
BROKEN = (
    "commit-without-leader",
    "disk-loss",
    "stale-end-transaction",
    "topic-recreated-without-coordinator",
)


def leaders(result: Result, fault: str = "kill") -> list[int]:
    """Who was elected since the last kill, in order."""
    killed = max(one["effective_ns"] for one in result.findings["faults"] if one["fault"] == fault)
    events = sorted(result.rows("cluster_events"), key=lambda event: int(event["at_ns"]))
    found = [e for e in events if e["kind"] == "leader" and e["topic"] == "orders" and e["at_ns"] > killed]
    return [event["leader"] for event in found if event["leader"] not in (None, -1)]


def keeps_its_leader(result: Result) -> bool:
    """Whether no partition of the topic ever got another leader."""
    epochs = {e["leader_epoch"] for e in result.rows("cluster_events") if e["topic"] == "orders"}
    return epochs == {0}


def readers(group: str, count: int) -> Callable[[Result], bool]:
    """Whether that many members of the group got messages; one that came back (`member-1.2`) is the same."""

    def found(result: Result) -> bool:
        rows = result.rows("deliveries", "group", "member")
        return count == len({row["member"].partition(".")[0] for row in rows if row["group"] == group})

    return found


def partitions(count: int) -> Callable[[Result], bool]:
    """Whether messages are in that many partitions."""
    return lambda result: count == len({row["partition"] for row in result.rows("log", "partition")})


def empties_its_followers(result: Result) -> bool:
    """Whether the empty broker was elected again, from the ISR, and every message of the first producer is
    gone.
    """
    led = [e for e in result.rows("cluster_events") if (e["topic"], e["kind"]) == ("orders", "leader")]
    again = max(led, key=lambda event: int(event["leader_epoch"]))
    kept = {row["producer"] for row in result.rows("log", "producer")}
    return leaders(result, "disk-loss") == [1] and again["isr"] == [1] and kept == {1}


def copies_everything(result: Result) -> bool:
    """Whether another broker was elected, and the empty one is in every ISR again at the end."""
    after = next(table for table in result.findings["partition_tables"] if table["when"] == "after")
    full = all(set(row["isr"]) == set(row["replicas"]) for row in after["partitions"])
    return leaders(result, "disk-loss")[0] in (2, 3) and full


def share(brokers: int) -> Callable[[Result], bool]:
    """Whether one broker's share of what was sent until its partition was acknowledged again had to wait."""

    def holds(result: Result) -> bool:
        fault = result.fault("kill")
        until = fault["effective_ns"] + fault["first_ack_after_ms"] * 1e6
        attempts = [row["attempt_ns"] for row in result.rows("sends", "attempt_ns")]
        sent = sum(fault["effective_ns"] <= attempt < until for attempt in attempts)
        return bool(fault["affected"] / sent == pytest.approx(1 / brokers, rel=0.1))

    return holds


def keeps_some(result: Result) -> bool:
    """Whether stores kept messages that Kafka did not take."""
    return bool(result.findings["totals"]["kept"] > 0)


def begins_at(offset: int) -> Callable[[Result], bool]:
    """Whether the group's second member was given nothing below that offset, and then that one."""

    def found(result: Result) -> bool:
        rows = result.rows("deliveries", "member", "offset")
        return offset == min(row["offset"] for row in rows if row["member"] == "member-1.2")

    return found


def fault_of(result: Result, kind: str) -> dict[str, Any]:
    """The first fault of that kind."""
    return next(fault for fault in result.findings["faults"] if fault["fault"] == kind)


# What a title says beyond the scenario's expectations.
ALSO: dict[str, Callable[[Result], bool]] = {
    "broker-failover-2x1": share(2),
    "topic-recreated": begins_at(0),
    "topic-recreated-without-coordinator": begins_at(100),
    "broker-failover-10x1": share(10),
    "broker-failover-10x10": share(10),
    "disk-loss": empties_its_followers,
    "disk-loss-elr": lambda r: leaders(r, "disk-loss") == [3],
    "disk-loss-in-sync": copies_everything,
    "competing-consumers": readers("billing", 2),
    "competing-consumers-share": readers("workers", 6),
    "kafka-away": keeps_some,
    "kafka-away-disk-full": keeps_some,
    "kafka-away-store-dies": keeps_some,
    "leader-disk-stall-acks-all": keeps_its_leader,
    "leader-isolated-side-traffic": lambda r: fault_of(r, "isolate")["first_ack_after_ms"] < 30_000,
    "many-partitions": partitions(200),
    "partition-resize": partitions(50),
    "replay-killed": keeps_some,
    "sequence-2012": lambda r: r.findings["totals"]["unknown"] + r.findings["totals"]["failed"] > 0,
    "single-partition-share": readers("workers", 4),
    "unclean-election": lambda r: leaders(r)[0] == 3,
    "unclean-election-elr": lambda r: leaders(r)[0] == 2,
    "unclean-election-elr-late": lambda r: leaders(r)[0] == 3,
}


def counted(result: Result) -> None:
    """Losses are what a plain reader of the rows counts."""
    result.assert_adds_up()
    assert result.count("lost") == len(result.lost())


def killed_with_acks_0(result: Result) -> None:
    counted(result)
    assert set(result.causes("lost")) <= {"acks-0"}


def killed_with_acks_1(result: Result) -> None:
    """A loss is permitted; where there is none, that is called luck."""
    counted(result)
    assert set(result.causes("lost")) <= {"deposed-leader"}
    if result.count("lost") == 0:
        assert "luck" in " ".join(result.findings["reasons"] + result.findings["notes"])


def lagging_with_acks_all(result: Result) -> None:
    """Who led before, during and after the kill of broker 1; the group's only member, and its lag."""
    counted(result)
    tables = {table["when"]: table["partitions"][0] for table in result.findings["partition_tables"]}
    assert tables["before"]["leader"] == 1 and tables["during"]["leader"] in (2, 3)
    assert [set(tables[when]["isr"]) for when in ("before", "after")] == [{1, 2, 3}] * 2
    assert all(table["replicas"] == [1, 2, 3] for table in tables.values())
    (group,) = result.findings["groups"]
    assert (group["type"], group["lag"]["final"]) == ("classic", 0) and group["lag"]["max"] > 0
    assert [member["delivered"] > 0 for member in group["members"]] == [True]
    assert result.findings["rebalances"][0]["trigger"] == "member-1 joined"


def restarted_in_turn(result: Result) -> None:
    """Every broker is stopped and started once, each after the ISR was whole again."""
    counted(result)
    restart = result.fault("rolling-restart")
    assert restart["brokers"] == [1, 2, 3]
    assert restart["proof"].count("ISR full") == 3
    events = sorted(result.rows("cluster_events"), key=lambda event: int(event["at_ns"]))
    since = [e for e in events if e["source"] == "kaput" and e["at_ns"] >= restart["injected_ns"]]
    order = [(e["kind"], e["broker"]) for e in since][:6]
    assert order == [(kind, broker) for broker in (1, 2, 3) for kind in ("stopped", "started")]


def upgraded_in_turn(result: Result) -> None:
    """Six nodes become Kafka 4, and each one's log has both versions."""
    counted(result)
    upgrade = result.fault("rolling-upgrade")
    assert upgrade["bit"] and upgrade["proof"].count("ISR full") == 6, upgrade["proof"]
    raised = re.search(
        rf"all are Kafka {re.escape(NEWEST_KAFKA)}; metadata\.version (\d+) has become (\d+)",
        upgrade["proof"],
    )
    assert raised is not None and int(raised[1]) < int(raised[2]), upgrade["proof"]
    logs = list(result.folder.glob("brokers/*/server.log"))
    assert len(logs) == 6
    for log in logs:
        versions = re.findall(r"Kafka version: (\S+)", log.read_text())
        assert (versions[0], versions[-1]) == ("3.9.2", NEWEST_KAFKA), log
    events = [e for e in result.rows("cluster_events") if e["at_ns"] > upgrade["injected_ns"]]
    # Each leader went, and after the last restart each came back to lead.
    assert {e["leader"] for e in events if e["kind"] == "leader"} == {1, 2, 3}


def piped_once(result: Result) -> None:
    """Of each input, readers of committed records get one output."""
    shown = {(row["producer"], row["seq"]) for row in result.rows("log") if row["visible"]}
    made = [row for row in result.rows("outputs") if (row["producer"], row["seq"]) in shown]
    inputs = Counter((row["topic"], row["partition"], row["offset"]) for row in made)
    orders = [row for row in result.rows("log") if row["topic"] == "orders"]
    assert len(inputs) == len(orders) == 20_000
    assert set(inputs.values()) == {1}
    outcomes = Counter(row["outcome"] for row in result.rows("transactions"))
    # The member that was killed has no outcome on record; the one that was paused was fenced.
    assert outcomes["committed"] > 300 and outcomes["aborted"] + outcomes["unknown"] > 0
    assert {row["producer"] for row in made} >= {1, 2, 3}
    seeks = [row for row in result.rows("group_events") if row["kind"] == "seek"]
    assert {(row["member"], row["topic"]) for row in seeks} == {("member-2", "orders")}


def read_past_a_hanging_transaction(result: Result) -> None:
    """Readers of committed records wait as long as the coordinator does; the others read on."""
    rows = result.rows("transactions")
    assert [row["outcome"] for row in rows if row["outcome"] != "committed"] in (["unknown"], ["aborted"])
    longest = {group["group"]: group["end_to_end_ms"]["max"] for group in result.findings["groups"]}
    assert longest["patient"] > 8_000 > longest["impatient"]


def stored_twice(result: Result) -> None:
    """Every duplicate that kaput counts is a copy in the log; two filters drop exactly those."""
    log = read_run_log(result.folder)
    copies = len(log) - result.findings["totals"]["sent"]
    assert copies == first_copies(log).count(False) >= result.count("duplicate") > 0
    for name in ("every id", "mark per topic-partition"):
        assert score_of(FILTERS[name](), log) == Score(0, 0), name


def stored_once(result: Result) -> None:
    """What readers are shown has no copy of anything, after the same fault."""
    assert result.count("duplicate") == result.count("lost") == 0
    assert all(first_copies(read_run_log(result.folder)))
    assert [fault["bit"] for fault in result.findings["faults"]] == [True, True]


# What else the rows have to show.
CHECKS: dict[str, Callable[[Result], None]] = {
    "broker-failover-2x1": counted,
    "broker-failover-10x1": counted,
    "broker-failover-10x10": counted,
    "exactly-once-pipe": piped_once,
    "hanging-transaction": read_past_a_hanging_transaction,
    "idempotence-compare-off": stored_twice,
    "idempotence-compare-on": stored_once,
    "idempotence-compare-transactions": stored_once,
    "leader-kill-acks-0": killed_with_acks_0,
    "leader-kill-acks-1": killed_with_acks_1,
    "leader-kill-acks-all": counted,
    "leader-kill-lagging-acks-1": counted,
    "leader-kill-lagging-acks-all": lagging_with_acks_all,
    "rolling-restart-acks-all": restarted_in_turn,
    "rolling-upgrade": upgraded_in_turn,
}


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("name", builtin_names())
def test_a_builtin_shows_what_its_title_says(kaput: Kaput, name: str) -> None:
    """Exit status 0, or 1 where Kafka is expected to break its promise; every expectation is met."""
    result = kaput.run(name)
    found = result.findings
    assert [each for each in found["expectations"] if each["met"] != "met"] == []
    assert result.status == (1 if name in BROKEN else 0), found["reasons"]
    assert name not in ALSO or ALSO[name](result)
    if name in CHECKS:
        CHECKS[name](result)


def test_only_builtins_have_more_to_say() -> None:
    """A renamed one would be checked no more."""
    assert {*ALSO, *CHECKS, *BROKEN} <= set(builtin_names())
