"""The headline and the section on availability, the table of several runs, and JUnit's cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade_findings import SECOND
from junitparser import JUnitXml

from kaput.core import percent
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Standstill, Wait
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Entry, compare
from kaput.report.document import Cell, Table
from kaput.report.junit import to_junit
from kaput.report.run_report import to_html, to_markdown, to_text
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import load_warning, outages, section, waited, waits_in_a_cell
from kaput.report.sections.clients import refusals
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario

BEGAN = 1_700_000_000 * SECOND
ORDERS = {"topic": "orders", "partition": 0}


def still(from_s: float, to_s: float, waits: dict[str, float] | None, **more: Any) -> dict[str, Any]:
    """A standstill that waited for these conditions, each until that second; none: not known. None instead
    of them: it ended with the load.
    """
    found, since = [], from_s
    for condition, until in (waits or {}).items():
        times = {"from_ns": BEGAN + round(since * SECOND), "to_ns": BEGAN + round(until * SECOND)}
        healed = {"faults": ["1-kill"]} if condition == "heal" else {}
        found.append({"condition": condition, **times, **healed})
        since = until
    met = [condition for condition in waits or {} if condition != "client"]
    by = None if waits is None else met[-1] if met else "client" if waits else "unknown"
    times = {name: BEGAN + round(at * SECOND) for name, at in (("from_ns", from_s), ("to_ns", to_s))}
    return {**times, "length_ms": (to_s - from_s) * 1e3, "ended_by": by, "waited_for": found, **more}


def share(standstills: list[float], within: int, **more: Any) -> dict[str, Any]:
    """An entry of availability with 1,000 messages."""
    return {
        "load_s": 60, "standstill_s": sum(standstills), "standstills": len(standstills),
        "longest_standstill_ms": max(standstills, default=0) * 1e3, "messages": 1_000,
        "within_1s": within, "within_1s_share": within / 1_000, **more,
    }  # fmt: skip


@pytest.fixture
def stood_still(raw: dict[str, Any]) -> dict[str, Any]:
    """The service for 10.2 s, one partition until the heal, and the group."""
    happened = [{"at_ns": BEGAN + 9 * SECOND, "kind": "isr", "what": "orders/0: ISR 2, 3"}]
    cause = "1-kill (broker 1) was in effect"
    raw["standstills"] = [
        still(8, 18.2, {"isr": 18, "client": 18.2}, happened=happened, cause=cause),
        still(8, 41.8, {"heal": 30, "election": 40.4, "client": 41.8}, **ORDERS),
        still(8, 12, {"rebalance": 12}, group="billing"),
    ]
    raw["availability"] = [share([10.2], 604), share([33.8], 208, **ORDERS), share([4], 600, group="billing")]
    longest = raw["standstills"][1]
    raw["faults"][0] |= {f"unavailable_{name}": longest[name] for name in ("ended_by", "waited_for")}
    return raw


def test_group_that_works_on_what_it_polled_says_so(raw: dict[str, Any]) -> None:
    """A member polls nothing while it works: that is its own time, unless another cause is known."""
    slowed = "1-slow (member 1 of billing) was in effect"
    raw["standstills"] = [
        still(8, 13, {}, group="billing"),
        still(14, 18, {}, group="billing") | {"cause": slowed},
        still(20, 23, {"rebalance": 23}, group="billing"),
        still(30, 33, {}, group="audit"),
    ]
    raw["availability"] = [share([], 1_000), share([5, 3], 600, group="billing")]
    scenario = load_builtin("noop").dump()
    scenario["workload"]["groups"] = [
        {"id": "billing", "topics": ["orders"], "processing": "10ms"},
        {"id": "audit", "topics": ["orders"]},
    ]
    run = JudgedRun(Findings.model_validate(raw), Scenario.model_validate(scenario))
    work = "its members work 10 ms on each record before they poll again"
    assert outages(run)[-1] == (
        "Group billing was delivered nothing new for 5.0 s (from 8.0 s on), the longest of 3: what it waited "
        f"for is not known; {work}."
    )
    made = section(run)
    assert made is not None
    tables = [block for block in made.blocks if isinstance(block, Table)]
    assert [str(row[-1].text) for row in tables[-1].rows] == [work, slowed, "not known", "not known"]


def test_headline_describes_the_standstill_and_its_end(stood_still: dict[str, Any], tmp_path: Path) -> None:
    """Of the service, and of the partition that waited longest, in the text, in Markdown and on the page."""
    findings = Findings.model_validate(stood_still)
    service, partition = outages(JudgedRun(findings))
    assert service == (
        "Nothing at all was acknowledged for 10.2 s (from 8.0 s on): it waited 10.0 s until the "
        "in-sync replicas changed, then 0.2 s for client and brokers. 60.4 % of all messages were "
        "acknowledged within 1 s, but 0.06 % of the acknowledged ones (23) are lost."
    )
    assert partition == (
        "orders/0 had no acknowledgement for 33.8 s (from 8.0 s on): it waited 22.0 s until the heal, then "
        "10.4 s until a leader was elected, then 1.4 s for client and brokers; a longer fault means a "
        "longer outage."
    )
    text = to_text(findings, tmp_path).plain
    assert text.splitlines()[1:3] == [service, partition]
    assert partition in to_markdown(findings) and partition in to_html(RunFolder(tmp_path), findings)
    assert "longest silence after it 10,012 ms (it waited 22.0 s until the heal, then" in " ".join(
        text.split()
    )


def test_load_that_fell_short(stood_still: dict[str, Any]) -> None:
    """Before the first fault; in a run without one, in all."""
    figures = {"asked_per_s": 1000.0, "sent_per_s": 890.0, "reached_per_s": 250.0}
    stood_still["claims"] = [{"kind": "load", "from_ns": 0, "to_ns": 8 * SECOND, "figures": figures}]
    short = "The load fell short: 890 of 1,000 messages a second (89.0 %) were sent, 250 acknowledged"
    assert outages(JudgedRun(Findings.model_validate(stood_still)))[0] == f"{short} before the first fault."
    stood_still["faults"] = []
    assert outages(JudgedRun(Findings.model_validate(stood_still)))[0] == f"{short}."


def test_shortfall_of_a_few_messages_is_none(stood_still: dict[str, Any]) -> None:
    """At 0.24 a second, one more second makes that of 25 seconds; more of them have their decimals. It is one
    where nothing was acknowledged.
    """
    for seconds, reached, shown in ((25, 0.04, False), (25, 0.0, True), (100, 0.0, True), (4, 0.0, False)):
        figures = {"asked_per_s": 0.24, "sent_per_s": 0.04, "reached_per_s": reached}
        claim = {"kind": "load", "from_ns": 0, "to_ns": seconds * SECOND, "figures": figures}
        stood_still["claims"] = [claim]
        text = "The load fell short: 0.04 of 0.24 messages a second (16.7 %) were sent, 0 acknowledged"
        sentences = outages(JudgedRun(Findings.model_validate(stood_still)))
        assert any(one.startswith(text) for one in sentences) == shown


def test_an_acknowledgement_after_the_load_is_none_of_it(stood_still: dict[str, Any]) -> None:
    """Nothing was acknowledged in that time: no more than one message may be missing."""
    figures = {"asked_per_s": 0.25, "sent_per_s": 0.25, "reached_per_s": 0.0}
    stood_still["claims"] = [{"kind": "load", "from_ns": 0, "to_ns": 11 * SECOND, "figures": figures}]
    stood_still["faults"], stood_still["totals"]["acked"] = [], 1
    assert list(load_warning(Findings.model_validate(stood_still))) == [
        "Acknowledgements fell behind the load: 0 of 0.25 messages a second (0.0 %)."
    ]


@pytest.mark.parametrize(("burst", "shown"), [(0, True), (20, False)])
def test_shortfall_of_one_transaction_is_none(stood_still: dict[str, Any], burst: int, shown: bool) -> None:
    """Of 150 messages in transactions of 20, 132 were sent when the fault was injected."""
    figures = {"asked_per_s": 100.0, "sent_per_s": 88.0, "reached_per_s": 88.0, "burst": burst}
    claim = {"kind": "load", "from_ns": 0, "to_ns": 3 * SECOND // 2, "figures": figures}
    stood_still["claims"] = [claim]
    assert bool(list(load_warning(Findings.model_validate(stood_still)))) == shown


def test_one_message_with_an_error_is_one(raw: dict[str, Any]) -> None:
    """Likewise one transaction."""
    raw["totals"]["sent"], errors = 5, {"messages": {"X": 1}, "transactions": {"Y": 1}}
    raw["client_errors"] = [{"client": "producers", **errors}]
    assert list(refusals(Findings.model_validate(raw))) == [
        "1 message was not acknowledged, by error: X 1.", "1 transaction was not committed, by error: Y 1.",
    ]  # fmt: skip


def test_acknowledgements_that_fell_behind_the_load(stood_still: dict[str, Any]) -> None:
    """All that was asked for was sent: the load is not to blame."""
    figures = {"asked_per_s": 1000.0, "sent_per_s": 1000.0, "reached_per_s": 250.0}
    stood_still["claims"] = [{"kind": "load", "from_ns": 0, "to_ns": 8 * SECOND, "figures": figures}]
    behind = "Acknowledgements fell behind the load before the first fault: "
    behind += "250 of 1,000 messages a second (25.0 %)."
    assert outages(JudgedRun(Findings.model_validate(stood_still)))[0] == behind


def test_several_standstills_are_added_up(stood_still: dict[str, Any]) -> None:
    """The longest is the one that is described."""
    stood_still["standstills"].append(still(50, 52, {"election": 52}))
    stood_still["availability"][0] = share([10.2, 2], 604)
    service, _ = outages(JudgedRun(Findings.model_validate(stood_still)))
    told = "Nothing at all was acknowledged for 12.2 s in 2 standstills; the longest: 10.2 s ("
    assert service.startswith(told)


def test_longest_of_several_standstills_of_a_partition_says_so(stood_still: dict[str, Any]) -> None:
    """Unless the list has not all of them."""
    stood_still["standstills"].append(still(60, 62, {"client": 62}, **ORDERS))
    for left_out, of in ((0, ", the longest of 2"), (1, "")):
        stood_still["standstills_left_out"] = left_out
        _, partition = outages(JudgedRun(Findings.model_validate(stood_still)))
        assert f"had no acknowledgement for 33.8 s (from 8.0 s on){of}: it waited" in partition


def test_standstill_of_a_single_partition_is_listed_once(stood_still: dict[str, Any]) -> None:
    """It stood still exactly when the service did."""
    stood_still["standstills"] = [still(8, 18, {"heal": 18}), still(8, 18, {"heal": 18}, **ORDERS)]
    assert len(outages(JudgedRun(Findings.model_validate(stood_still)))) == 1


def test_fault_is_named_where_it_is_not_known_what_a_standstill_waited_for(raw: dict[str, Any]) -> None:
    """As of a slow broker; else the waits tell."""
    cause = "1-delay (broker 3) was in effect, and hit orders/0"
    raw["standstills"] = [still(8, 18.2, {}, cause=cause)]
    raw["availability"] = [share([10.2], 604)]
    (sentence,) = outages(JudgedRun(Findings.model_validate(raw)))
    assert f"what it waited for is not known; {cause}. " in sentence
    raw["standstills"] = [still(8, 18.2, {"heal": 18.2}, cause=cause)]
    (sentence,) = outages(JudgedRun(Findings.model_validate(raw)))
    assert cause not in sentence


def test_clients_that_a_plan_moved_waited_even_if_no_message_did(raw: dict[str, Any]) -> None:
    """Producers that a plan stops send nothing: no silence, and yet nothing was written for 8.3 s."""
    moved = {"from_ns": BEGAN + 8 * SECOND, "to_ns": BEGAN + 16 * SECOND, "seconds": 8.28}
    group = {"group": "billing", "rto": {**moved, "seconds": 8.5}, "read_twice": 0, "skipped": 0}
    raw["plan"] = {"steps": [], "source": "dc1", "target": "dc2", "rto_writes": moved, "groups": [group]}
    sentences = outages(JudgedRun(Findings.model_validate(raw)))
    assert sentences == ["RTO from dc1 to dc2: writes 8.3 s, billing 8.5 s."]


def test_run_without_standstills_says_so(raw: dict[str, Any]) -> None:
    """And findings from before that are silent."""
    assert outages(JudgedRun(Findings.model_validate(raw))) == []
    assert section(JudgedRun(Findings.model_validate(raw))) is None
    raw["availability"] = [share([], 1_000)]
    assert outages(JudgedRun(Findings.model_validate(raw))) == [
        "No standstill: the service never went a second without an acknowledgement while messages were "
        "waiting. 100.0 % of all messages were acknowledged within 1 s, "
        "but 0.06 % of the acknowledged ones (23) are lost."
    ]


def test_a_suspect_is_in_the_headline(raw: dict[str, Any]) -> None:
    """Whoever reads of losses reads it, too."""
    story = "Suspect the client program of producer 0 (command), not Kafka: 3 messages were ..."
    raw["suspects"] = [
        {"producer": 0, "client": "command", "acked_leaderless": 3, "lost_without_offset": 0, "story": story}
    ]
    assert story in to_text(Findings.model_validate(raw), "x").plain.splitlines()[:3]


def test_the_section_lists_shares_and_standstills(stood_still: dict[str, Any]) -> None:
    """With what happened during those of the whole service."""
    text = to_text(Findings.model_validate(stood_still), "x").plain
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "acknowledged, all partitions 1,000 60.4 % - 1 10.2 10.2",
        "delivered to billing, all partitions 1,000 60.0 % - 1 4 4",
        "acknowledged, orders/0 1,000 20.8 % - 1 33.8 33.8",
        "8.0 10.2 isr 10.0 s, client 0.2 s 1-kill (broker 1) was in effect",
        "at 9.0 s: orders/0: ISR 2, 3",
        "acknowledged, orders/0 8.0 33.8 heal 22.0 s, election 10.4 s, client 1.4 s not known",
        "delivered to billing, all partitions 8.0 4.0 rebalance 4.0 s not known",
    ):
        assert line in lines, line


@pytest.mark.parametrize(
    ("waits", "sentence", "cell"),
    [
        ({"election": 14.5, "client": 16.2}, "it waited 6.5 s until a leader was elected, then 1.7 s for "
         "client and brokers", "election 6.5 s, client 1.7 s"),
        ({"heal": 16.2}, "it waited 8.2 s until the heal; a longer fault means a longer outage",
         "heal 8.2 s"),
        ({"client": 16.2}, "it waited 8.2 s for client and brokers", "client 8.2 s"),
        ({"isr": 16.16, "client": 16.2}, "it waited 8.2 s until the in-sync replicas changed", "isr 8.2 s"),
        ({"isr": 16.148, "client": 16.2}, "it waited 8.1 s until the in-sync replicas changed, then 52 ms "
         "for client and brokers", "isr 8.1 s, client 52 ms"),
        ({}, "what it waited for is not known", "not known"),
        (None, "no acknowledgement ended it", "not acknowledged"),
    ],
)  # fmt: skip
def test_standstill_says_what_it_waited_for(waits: dict[str, float] | None, sentence: str, cell: str) -> None:
    """A longer fault means a longer outage only if one of the waits is for a heal."""
    one = Standstill.model_validate(still(8, 16.2, waits))
    assert waited(one.waited_for, one.ended_by) == sentence
    assert waits_in_a_cell(one.waited_for, one.ended_by) == cell


def test_transaction_that_a_group_waited_for_is_named() -> None:
    """Once, though a missing leader hid it for a while."""
    open_, ended = (
        Wait(condition="transaction", from_ns=from_ns, to_ns=to_ns, record=record)
        for from_ns, to_ns, record in ((0, 10**9, ""), (3 * 10**9, 5 * 10**9, "transaction 7 was committed"))
    )
    election = Wait(condition="election", from_ns=10**9, to_ns=3 * 10**9)
    until = "until an open transaction was ended"
    assert waited([open_, election, ended], "transaction") == (
        f"it waited 1.0 s {until}, then 2.0 s until a leader was elected, then 2.0 s {until} "
        "(transaction 7 was committed)"
    )


@pytest.mark.parametrize(("seconds", "told"), [(16, False), (18, True)])
def test_a_load_that_slumped_for_longer_than_it_was_silent_is_named(
    stood_still: dict[str, Any], seconds: int, told: bool
) -> None:
    """The service stood still for 10.2 s; a second at each end of that does not count."""
    stood_still["rates"]["slumps"] = [
        {"what": "acked", "below_per_s": 800, "longest_s": seconds, "total_s": seconds}
    ]
    first = outages(JudgedRun(Findings.model_validate(stood_still)))[0]
    words = f"In each of {seconds} seconds, fewer than 800 messages were acknowledged (80 % of the load)."
    assert first.startswith(words) == told
    stood_still["rates"]["slumps"][0]["below_per_s"] = 0.16  # most seconds have no message
    assert "80 % of the load" not in outages(JudgedRun(Findings.model_validate(stood_still)))[0]


@pytest.mark.parametrize(
    ("faults", "after", "sentence"),
    [
        (["1-kill"], "1-kill", "it waited 8.2 s until the heal; a longer fault means a longer outage"),
        (["1-kill"], "2-pause", "it waited 8.2 s until the heal of 1-kill"),
        (["1-kill", "2-pause"], "2-pause", "it waited 8.2 s until the heal of 1-kill and 2-pause; "
         "a longer fault means a longer outage"),
        ([], None, "it waited 8.2 s until a broker started"),
    ],
)  # fmt: skip
def test_heal_of_another_fault_is_named(faults: list[str], after: str | None, sentence: str) -> None:
    """What one fault is said to have meant is not what another one did, nor a broker that died by itself."""
    one = Standstill.model_validate(still(8, 16.2, {"heal": 16.2}))
    waits = [wait.model_copy(update={"faults": faults}) for wait in one.waited_for]
    assert waited(waits, one.ended_by, after=after) == sentence


def test_election_that_waited_for_a_fencing_as_well_is_no_longer_with_the_fault() -> None:
    """One that follows a broker's return is. Of several faults, each heal is named."""
    one = Standstill.model_validate(still(8, 16.2, {"heal": 12.2, "election": 16.2}))
    heal, election = one.waited_for
    heal = heal.model_copy(update={"faults": ["2-kill"]})
    fenced = election.model_copy(update={"fenced": 1})
    story = "it waited 4.2 s until the heal of 2-kill, then 4.0 s until a leader was elected"
    longer = "; a longer fault means a longer outage"
    assert waited([heal, fenced], "election", named=True) == story
    assert waited([heal, election], "election", named=True) == f"{story}{longer}"


def test_each_heal_that_was_waited_for_is_that_of_its_own_faults() -> None:
    """The first fault was long over when the second heal came."""
    one = Standstill.model_validate(still(8, 18, {"heal": 14, "election": 16}))
    first, election = one.waited_for
    last = first.model_copy(update={"from_ns": election.to_ns, "to_ns": one.to_ns, "faults": ["4-cut"]})
    waits = [first.model_copy(update={"faults": ["1-pause"]}), election, last]
    assert waited(waits, "heal", named=True) == (
        "it waited 6.0 s until the heal of 1-pause, then 2.0 s until a leader was elected, "
        "then 2.0 s until the heal of 4-cut; a longer fault means a longer outage"
    )


def test_what_rounds_to_nothing_parts_no_neighbors() -> None:
    """Two waits for the client around 10 ms without an owner read as one."""
    waits = [
        *still(8, 8.01, {"client": 12, "rebalance": 12.01})["waited_for"],
        *still(12.01, 16, {"client": 16})["waited_for"],
    ]
    assert waits_in_a_cell([Wait.model_validate(one) for one in waits], "rebalance") == "client 8.0 s"


def test_comparison_shows_what_each_outage_waited_for(stood_still: dict[str, Any]) -> None:
    """Of each run, other than the client; how many of each where a variant was repeated."""
    elected = Findings.model_validate(stood_still)
    shrinking = still(8, 18.2, {"isr": 18, "client": 18.2})
    stood_still["faults"][0] |= {
        f"unavailable_{name}": shrinking[name] for name in ("ended_by", "waited_for")
    }
    shrunk = Findings.model_validate(stood_still)

    def entry(run: str, variant: str, findings: Findings) -> Entry:
        return Entry(run, variant, "s", {"a": variant}, findings)

    columns = {c.name: c.cells for c in compare([entry("1", "x", elected), entry("2", "y", shrunk)]).naming}
    assert columns["outage waited for"] == ["heal, election", "isr"]
    entries = [entry("1", "x", elected), entry("2", "y", shrunk), entry("3", "x", shrunk)]
    columns = {column.name: column.cells for column in compare(entries).naming}
    assert columns["outage waited for"] == ["1: heal, election; 1: isr", "isr"]
    figures = {column.name: column.cells for column in compare(entries[:2]).figures}
    assert figures["standstill ms"] == ["10,200", "10,200"]
    assert figures["acked in 1 s %"] == ["60.4", "60.4"]


def test_junit_has_availability_expectations(raw: dict[str, Any]) -> None:
    """A limit that was exceeded is a failure, one that was not measured an error."""
    raw["run"]["ended_ns"] = raw["run"]["started_ns"] + 61 * SECOND
    raw["expectations"] = [
        {
            "name": "standstill-ms",
            "wanted": "<5000",
            "found": 10_200.5,
            "met": "exceeded",
            "why": "10,200.5 ms",
        },
        {"name": "election-ms", "wanted": "<9", "found": None, "met": "unmet", "why": "not measured"},
        {"name": "lost", "wanted": ">0", "found": 23, "met": "met"},
    ]
    (suite,) = JUnitXml.fromstring(to_junit(Findings.model_validate(raw)).encode())
    cases = {case.name: case for case in suite}
    assert cases["verdict"].time == 61 and suite.time == 61
    told = {
        name: [(type(result).__name__, result.message) for result in cases[name].result]
        for name in cases
        if name.startswith("expect ")
    }
    assert told == {
        "expect standstill-ms: <5000": [("Failure", "standstill-ms: <5000 was not met (10,200.5 ms)")],
        "expect election-ms: <9": [("Error", "election-ms: <9 was not met (not measured)")],
        "expect lost: >0": [],
    }


def test_expectations_are_in_the_report(raw: dict[str, Any]) -> None:
    raw["expectations"] = [{"name": "lost", "wanted": "<5", "found": 23, "met": "exceeded"}]
    assert "  lost         <5        23  exceeded\n" in to_text(Findings.model_validate(raw), "x").plain


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0.0 %"),
        (1, "100.0 %"),
        (0.1068, "10.7 %"),
        (0.9995, "99.95 %"),
        (0.999_999, "99.9999 %"),
        (0.00015, "0.01 %"),
        (1e-9, "0.0000001 %"),
    ],
)
def test_a_percentage_claims_all_or_none_only_where_it_is_so(share: float, text: str) -> None:
    assert percent(share) == text


def test_standstills_that_findings_left_out_are_counted(stood_still: dict[str, Any]) -> None:
    """Only the longest hundred are in findings.json; the shares have how many there were."""
    for one in stood_still["availability"]:
        if one.get("topic") is not None:
            one["standstills"] = 250
    part = section(JudgedRun(Findings.model_validate(stood_still)))
    assert part is not None
    (table,) = (
        each for each in part.blocks if isinstance(each, Table) and "Standstills" in str(each.caption)
    )
    partitions = sum(one.get("topic") is not None for one in stood_still["availability"])
    groups = sum(
        one["standstills"] for one in stood_still["availability"] if one.get("group") and not one.get("topic")
    )
    assert table.left_out == 250 * partitions + groups - len(table.rows)


def test_standstills_of_a_groups_partitions_are_listed(stood_still: dict[str, Any]) -> None:
    """Except those in which the whole group stood still; what is not shown is counted."""
    mine = {"group": "billing", **ORDERS}
    stood_still["standstills"] += [still(8, 12, {}, **mine), still(8, 48.5, {}, **mine)]
    stood_still["availability"].append(share([4, 40.5], 600, **mine))
    part = section(JudgedRun(Findings.model_validate(stood_still)))
    assert part is not None
    shares, table = (each for each in part.blocks if isinstance(each, Table) and "scope" in each.header)
    assert [row[0] for row in table.rows] == [
        "delivered to billing, orders/0",
        "acknowledged, orders/0",
        "delivered to billing, all partitions",
    ]
    assert table.left_out == 0 and len(shares.rows) == 3


def test_more_stories_than_shown_are_counted() -> None:
    """Unless the cell counts them itself."""
    assert Cell("2-kill", stories=list("abcd")).first_stories() == ["a", "b", "c", "and 1 more"]
    assert Cell("2-kill", stories=list("abc")).first_stories() == list("abc")
    assert Cell("4 examples", stories=list("abcd")).first_stories() == list("abc")
