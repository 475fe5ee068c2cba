"""Each definition has a mutant: findings with one wrong statement, which the second opinion calls false."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from second_opinion.judging import findings_of, played
from second_opinion.opinion import FALSE, Examiner
from second_opinion.raw import MS, SECOND, Row, RunTables
from second_opinion.simulated import FaultSpec, World

Change = Callable[[Row, RunTables], None]

WORLDS = {
    # Broker 1 leads orders/0 and orders/3 and is in every ISR; the paused follower hits all of them.
    "kill": World(
        1,
        min_isr=2,
        partitions=4,
        session=6_000,
        faults=(FaultSpec("pause", 2, 4_000, 3_000), FaultSpec("kill", 1, 9_000, 14_000)),
    ),
    "no leader": World(
        13, replicas=1, partitions=1, session=3_000, faults=(FaultSpec("kill", 1, 5_000, 12_000),)
    ),
    "deposed": World(
        3, acks=1, session=3_000, misled=True, partitions=1, faults=(FaultSpec("isolate", 1, 5_000, 12_000),)
    ),
    "aborted": World(4, transactions=True, faults=(FaultSpec("kill", 1, 5_000, 12_000),)),
    "elsewhere": World(
        5, faults=(FaultSpec("kill", "mirror", 4_000, 5_000), FaultSpec("kill", 1, 5_000, 18_000))
    ),
    "stuck": World(
        8,
        acks=1,
        partitions=1,
        faults=(FaultSpec("pause", 2, 3_000, 7_500), FaultSpec("pause", "member 1", 5_000, 5_990)),
    ),
    "member": World(6, partitions=2, faults=(FaultSpec("pause", "member 1", 5_000, 12_000),)),
    "twice": World(
        7,
        replicas=3,
        partitions=1,
        session=6_000,
        faults=(FaultSpec("pause", 1, 4_000, 3_000), FaultSpec("kill", 1, 10_000, 12_000)),
    ),
    "fetched": World(
        307,
        partitions=1,
        replicas=1,
        session=3_000,
        faults=(FaultSpec("pause", "member 1", 3_810, 8_000), FaultSpec("power-loss", 1, 6_720, 12_000)),
    ),
    # Broker 2 is gone until 28 s; the silence is from 12 s, when broker 3 dies, until that is back.
    "too small": World(
        2,
        min_isr=2,
        partitions=1,
        session=3_000,
        faults=(FaultSpec("kill", 2, 3_000, 25_000), FaultSpec("kill", 3, 12_000, 6_000)),
    ),
}


_MADE = TemporaryDirectory(prefix="kaput-worlds-")  # removed when the worker ends


@cache
def judged(name: str) -> tuple[Examiner, Row]:
    """A world's folder as the second opinion reads it, and its findings, made once."""
    run = played(WORLDS[name], Path(_MADE.name) / name)
    return Examiner(run), findings_of(run)


@cache
def called_false(name: str) -> set[str]:
    """The claims about a world as it was judged that the second opinion calls false."""
    examiner, right = judged(name)
    return {one.claim for one in examiner.opinions(right) if one.verdict == FALSE}


class Mutant(NamedTuple):
    """What is wrong, in which world, and how."""

    world: str
    change: Change


def _of(found: Row, kind: str, **more: object) -> Iterator[Row]:
    """Claims of a kind, with these fields."""
    for claim in found["claims"]:
        if claim["kind"] == kind and all(claim[key] == value for key, value in more.items()):
            yield claim


def _one(found: Row, kind: str, **more: object) -> Row:
    return next(_of(found, kind, **more))


def _longest(found: Row, **more: object) -> Row:
    """The longest silence of a partition."""
    some = [c for c in _of(found, "silence", group=None, **more) if c["topic"] is not None]
    return max(some, key=lambda c: c["figures"]["length_ms"])


# Silences.


def _begins_earlier(found: Row, _: RunTables) -> None:
    _longest(found)["from_ns"] -= 50 * MS


def _ends_later(found: Row, _: RunTables) -> None:
    _longest(found)["to_ns"] += 50 * MS


def _wrong_length(found: Row, _: RunTables) -> None:
    _longest(found)["figures"]["length_ms"] += 100


def _left_out(found: Row, _: RunTables) -> None:
    found["standstills"].clear()


def _too_short(found: Row, _: RunTables) -> None:
    row = copy.deepcopy(found["standstills"][0])
    row["to_ns"] = row["from_ns"] + 900 * MS
    found["standstills"].append(row)


def _another_length_in_the_headline(found: Row, _: RunTables) -> None:
    row = next(r for r in found["availability"] if r["topic"] is None and r["group"] is None)
    row["longest_standstill_ms"] += 2_000


def _unavailable_without_a_silence(found: Row, _: RunTables) -> None:
    row = copy.deepcopy(found["unavailability"][0])
    row["to_ns"], row["longest_ms"], row["ended_by"] = row["from_ns"] + 300 * MS, 300.0, None
    found["unavailability"] = [row]


def _not_the_longest(found: Row, _: RunTables) -> None:
    found["unavailability"][0]["longest_ms"] /= 2


# What they waited for.


def _ended_by_the_heal_of_a_follower(found: Row, _: RunTables) -> None:
    _longest(found, partition=0)["ended_by"] = "heal"


def _ended_by_the_heal_of_a_mirror(found: Row, _: RunTables) -> None:
    fault = found["faults"][0]
    for row in found["standstills"]:
        wait = {
            "condition": "heal",
            "from_ns": row["from_ns"],
            "to_ns": fault["healed_ns"],
            "faults": [fault["id"]],
        }
        row["ended_by"], row["waited_for"] = "heal", [wait]


def _the_last_condition_is_forgotten(found: Row, _: RunTables) -> None:
    claim = _longest(found)
    claim["waited_for"] = claim["waited_for"][:1]
    claim["ended_by"] = claim["waited_for"][0]["condition"]


def _a_wait_is_longer(found: Row, _: RunTables) -> None:
    _longest(found)["waited_for"][0]["to_ns"] += SECOND


def _needs_no_heal(found: Row, _: RunTables) -> None:
    claim = _longest(found)
    claim["waited_for"] = [w for w in claim["waited_for"] if w["condition"] != "heal"]


def _client_instead_of_an_election(found: Row, _: RunTables) -> None:
    for row in found["standstills"]:
        row["ended_by"], row["waited_for"] = "client", []


def _the_lag_grew_until_the_heal(found: Row, _: RunTables) -> None:
    found["faults"][0]["lag_ended_by"] = "heal"


def _elections(found: Row) -> Iterator[Row]:
    claims = (c for c in found["claims"] if c["kind"] in ("silence", "unavailable"))
    rows = [*found["standstills"], *found["unavailability"], *claims]
    waits = [wait for row in rows for wait in row["waited_for"]]
    waits += [wait for row in found["faults"] for wait in row["unavailable_waited_for"]]
    return (wait for wait in waits if wait["condition"] == "election")


def _followed_another_fencing(found: Row, _: RunTables) -> None:
    for wait in _elections(found):
        wait["fenced"] = 2


def _another_leader_was_elected(found: Row, _: RunTables) -> None:
    for wait in _elections(found):
        wait["record"] = wait["record"].replace("broker ", "broker 1", 1)


def _another_wait_in_a_copy(found: Row, _: RunTables) -> None:
    found["standstills"][0]["waited_for"][-1]["to_ns"] += SECOND


def _a_member_read_more(found: Row, _: RunTables) -> None:
    found["groups"][0]["members"][0]["delivered"] += 1


def _assigned_later(found: Row, _: RunTables) -> None:
    handovers = (one for row in found["rebalances"] for one in row["handovers"])
    next(one for one in handovers if one["assigned_ns"] is not None)["assigned_ns"] += SECOND


def _ended_by_nothing(found: Row, _: RunTables) -> None:
    _longest(found)["ended_by"] = None


def _members_are_no_condition(found: Row, _: RunTables) -> None:
    for claim in _of(found, "silence", group="billing"):
        claim["ended_by"], claim["waited_for"] = "election", []


# Failovers.


def _no_leader_ends_the_election(found: Row, tables: RunTables) -> None:
    event = next(e for e in tables.rows("cluster_events") if e["leader"] == -1)
    claim = _one(found, "election")
    claim["figures"] |= {"leader": -1.0, "election_ms": (event["at_ns"] - claim["from_ns"]) / MS}
    claim["to_ns"] = event["at_ns"]
    found["faults"][0]["election_ms"] = claim["figures"]["election_ms"]


def _the_next_faults_election(found: Row, _: RunTables) -> None:
    claim = copy.deepcopy(_one(found, "election"))
    first = found["faults"][0]
    claim |= {"fault": first["id"], "from_ns": first["effective_ns"]}
    claim["figures"]["election_ms"] = (claim["to_ns"] - claim["from_ns"]) / MS
    found["claims"].append(claim)


def _a_later_election(found: Row, _: RunTables) -> None:
    found["faults"][-1]["election_ms"] += 1_500


def _affected_to_the_first_partitions_end(found: Row, tables: RunTables) -> None:
    claims = [c for c in _of(found, "affected") if c["figures"]["affected"]]
    first, last = min(claims, key=lambda c: c["to_ns"]), max(claims, key=lambda c: c["to_ns"])
    last["to_ns"] = first["to_ns"] - 1
    sends = [s for s in tables.rows("sends") if s["partition"] == last["partition"]]
    sent = sum(last["from_ns"] <= s["attempt_ns"] < last["to_ns"] for s in sends)
    last["figures"] |= {"sent": float(sent), "affected": float(sent)}


def _affected_of_all_that_was_sent(found: Row, _: RunTables) -> None:
    row = found["faults"][-1]
    row["sent_in_window"], row["affected"] = row["sent_in_window"] + 10, row["affected"] + 10


def _affected_nothing(found: Row, _: RunTables) -> None:
    found["faults"][-1]["affected"] = 0


def _the_first_ack_is_the_deposed_leaders(found: Row, tables: RunTables) -> None:
    claim = _one(found, "first-ack")
    done = [s["done_ns"] for s in tables.rows("sends") if s["outcome"] == "acked"]
    claim["to_ns"] = min(at for at in done if at > claim["from_ns"])
    claim["figures"]["first_ack_after_ms"] = (claim["to_ns"] - claim["from_ns"]) / MS


def _overwritten_nothing(found: Row, _: RunTables) -> None:
    for row in found["leader_changes"]:
        row["deposed_acks"] = 0


def _no_leader_is_a_leader(found: Row, tables: RunTables) -> None:
    event = next(e for e in tables.rows("cluster_events") if e["leader"] == -1)
    row = found["leader_changes"][0] | {"elected_ns": event["at_ns"], "epoch": event["leader_epoch"]}
    found["leader_changes"].append(row | {"leader": -1})


def _a_table_shows_a_dead_leader(found: Row, tables: RunTables) -> None:
    event = next(e for e in tables.rows("cluster_events") if e["leader"] == -1)
    table = next(t for t in found["partition_tables"] if t["when"] == "during")
    table["at_ns"] = event["at_ns"] + SECOND
    table["partitions"][0] |= {"leader": 1, "leader_epoch": 0}


def _a_longer_outage(found: Row, _: RunTables) -> None:
    found["faults"][-1]["unavailable_ms"] += 2_000


# Groups.


def _stuck_by_commits(found: Row, _: RunTables) -> None:
    found["faults"][-1]["stuck"] = {"billing": 499}


def _nothing_was_stuck(found: Row, _: RunTables) -> None:
    for row in found["faults"]:
        row["stuck"] = {}
    found["claims"] = [c for c in found["claims"] if c["kind"] != "stuck"]


def _a_backlog_that_was_not_there(found: Row, _: RunTables) -> None:
    found["faults"][-1]["backlog_drained_ms"] = 53_000.0


def _aborted_messages_within_a_second(found: Row, tables: RunTables) -> None:
    row = next(r for r in found["availability"] if r["group"] == "billing" and r["topic"] is None)
    row["messages"] = sum(s["outcome"] == "acked" for s in tables.rows("sends"))


def _all_within_a_second(found: Row, _: RunTables) -> None:
    row = next(r for r in found["availability"] if r["group"] is None and r["topic"] is None)
    row["within_1s"] = row["messages"]


def _no_revocation(found: Row, _: RunTables) -> None:
    found["rebalances"][0]["started_ns"] += 7 * MS


def _the_load_was_reached(found: Row, _: RunTables) -> None:
    claim = _one(found, "load")
    claim["figures"]["reached_per_s"] = 2.0 * claim["figures"]["asked_per_s"]


def _times_are_unknown(found: Row, _: RunTables) -> None:
    claim = copy.deepcopy(found["claims"][0])
    found["claims"].append({**claim, "kind": "times-unknown", "fault": None, "topic": None})


# Causes and rebalances.


def _a_fault_elsewhere_is_a_cause(found: Row, _: RunTables) -> None:
    claim = copy.deepcopy(_longest(found))
    mirror = next(row for row in found["faults"] if row["target"].startswith("mirror"))
    found["claims"].append({**claim, "kind": "cause", "fault": mirror["id"], "figures": {"since_ns": 0}})


def _no_cause(found: Row, _: RunTables) -> None:
    found["claims"] = [claim for claim in found["claims"] if claim["kind"] != "cause"]


def _a_dead_leader_is_a_cause(found: Row, _: RunTables) -> None:
    """Of a silence that it did not begin: what was delivered had been fetched."""
    claim = _one(found, "cause", fault="1-pause", group="billing", partition=0)
    found["claims"].append({**copy.deepcopy(claim), "fault": "2-power-loss"})


def _no_cause_before_it(found: Row, _: RunTables) -> None:
    """Of the fault on the follower that had left the ISR."""
    found["claims"] = [c for c in found["claims"] if "too small without it" not in (c["why"] or "")]


def _another_rebalance(found: Row) -> Row:
    """The one that the pause of the member began."""
    row: Row = found["rebalances"][-1]
    return row


def _another_trigger(found: Row, _: RunTables) -> None:
    _another_rebalance(found)["trigger"] = "member-2 joined"


def _unknown_trigger(found: Row, _: RunTables) -> None:
    _another_rebalance(found)["trigger"] = "unknown"


def _owned_all_the_time(found: Row, _: RunTables) -> None:
    _another_rebalance(found)["unowned_partition_seconds"] = 0.0


MUTANTS: dict[str, Mutant] = {
    "a silence begins before the last acknowledgement": Mutant("kill", _begins_earlier),
    "a silence ends after the next acknowledgement": Mutant("kill", _ends_later),
    "a silence has another length": Mutant("kill", _wrong_length),
    "no standstill": Mutant("kill", _left_out),
    "a standstill of less than a second": Mutant("kill", _too_short),
    "another length in the headline": Mutant("kill", _another_length_in_the_headline),
    "unavailable without a silence": Mutant("kill", _unavailable_without_a_silence),
    "not the longest silence of a producer": Mutant("kill", _not_the_longest),
    "ended by the heal of a follower": Mutant("kill", _ended_by_the_heal_of_a_follower),
    "ended by the heal of a mirror": Mutant("elsewhere", _ended_by_the_heal_of_a_mirror),
    "the last condition is forgotten": Mutant("no leader", _the_last_condition_is_forgotten),
    "a wait is longer than its record": Mutant("no leader", _a_wait_is_longer),
    "an election followed another fencing": Mutant("kill", _followed_another_fencing),
    "another leader was elected": Mutant("kill", _another_leader_was_elected),
    "a copy of a claim has another wait": Mutant("kill", _another_wait_in_a_copy),
    "a member was delivered more": Mutant("member", _a_member_read_more),
    "a member was assigned a partition later": Mutant("member", _assigned_later),
    "a heal was not needed": Mutant("no leader", _needs_no_heal),
    "the client, and not an election": Mutant("kill", _client_instead_of_an_election),
    "not ended by an acknowledgement": Mutant("kill", _ended_by_nothing),
    "a group waits for no member": Mutant("member", _members_are_no_condition),
    "an election ends without a leader": Mutant("no leader", _no_leader_ends_the_election),
    "the next fault's election": Mutant("twice", _the_next_faults_election),
    "a later election": Mutant("kill", _a_later_election),
    "affected to another partition's end": Mutant("kill", _affected_to_the_first_partitions_end),
    "affected: all that was sent": Mutant("kill", _affected_of_all_that_was_sent),
    "affected: nothing": Mutant("kill", _affected_nothing),
    "the first acknowledgement was the deposed leader's": Mutant(
        "deposed", _the_first_ack_is_the_deposed_leaders
    ),
    "nothing was overwritten": Mutant("deposed", _overwritten_nothing),
    "no leader is a leader": Mutant("no leader", _no_leader_is_a_leader),
    "a table shows a dead leader": Mutant("no leader", _a_table_shows_a_dead_leader),
    "a longer outage": Mutant("kill", _a_longer_outage),
    "the lag grew until the heal": Mutant("kill", _the_lag_grew_until_the_heal),
    "stuck by commits": Mutant("kill", _stuck_by_commits),
    "nothing was stuck": Mutant("stuck", _nothing_was_stuck),
    "a backlog that was not there": Mutant("kill", _a_backlog_that_was_not_there),
    "aborted messages within a second": Mutant("aborted", _aborted_messages_within_a_second),
    "everything within a second": Mutant("kill", _all_within_a_second),
    "a rebalance without a revocation": Mutant("member", _no_revocation),
    "a fault elsewhere is the cause": Mutant("elsewhere", _a_fault_elsewhere_is_a_cause),
    "the fault is not the cause": Mutant("kill", _no_cause),
    "a dead leader is a cause of what had been fetched": Mutant("fetched", _a_dead_leader_is_a_cause),
    "a follower that is away is no cause of a small ISR": Mutant("too small", _no_cause_before_it),
    "another trigger": Mutant("member", _another_trigger),
    "no trigger": Mutant("member", _unknown_trigger),
    "a frozen member owns its partitions": Mutant("member", _owned_all_the_time),
    "the load reached what was asked": Mutant("kill", _the_load_was_reached),
    "no acknowledgement has a time": Mutant("kill", _times_are_unknown),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_statement_is_called_false(name: str) -> None:
    """Where the right ones are not."""
    world, change = MUTANTS[name]
    examiner, right = judged(world)
    wrong = copy.deepcopy(right)
    change(wrong, examiner.tables)
    assert wrong != right
    known = called_false(world)
    assert any(one.verdict == FALSE and one.claim not in known for one in examiner.opinions(wrong))


@pytest.mark.parametrize("name", WORLDS)
def test_the_right_statements_are_not(name: str) -> None:
    """Those that the mutants are made of."""
    assert called_false(name) == set()
