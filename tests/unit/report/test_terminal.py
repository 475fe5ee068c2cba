"""The terminal report says what the findings say, the verdict first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from handmade_findings import anomaly

from fakes.histories import History
from fakes.judging import findings_in
from kaput.evidence.findings import Findings
from kaput.report.document import Bullets, Paragraph, plain
from kaput.report.render import html
from kaput.report.run_report import document, to_html, to_markdown, to_text
from kaput.report.sections import JudgedRun, leaders
from kaput.report.sections.fates import anomalies, fates_table
from kaput.report.sections.leaders import leader_sentences
from kaput.report.sections.rerun import configuration
from kaput.report.sections.summary import head, setup, target_of
from kaput.report.sections.transactions import transaction_sentences
from kaput.report.sentences import arithmetic_sentence, verdict_sentence
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario


def test_the_verdict_comes_first(findings: Findings) -> None:
    """The first line is the verdict with the counts that matter, and why the loss is permitted."""
    first = to_text(findings, Path("runs/x")).plain.splitlines()[0]
    assert first == (
        "HELD, with permitted loss: 40,000 sent, 39,997 acknowledged, 3 of unknown outcome, "
        "23 acknowledged messages lost (permitted: acks=1 promises nothing across a change of leader)."
    )


def test_the_first_line_has_the_rulings_reasons_for_a_permitted_loss(raw: dict[str, Any]) -> None:
    """Whatever the causes are: what permits a loss by an election outside the ISR may be acks=1."""
    lost = next(a for a in raw["anomalies"] if a["name"] == "lost")
    lost["causes"] = {"unclean-election": 22, "leader-restarted": 1}
    sentence = verdict_sentence(Findings.model_validate(raw))
    assert sentence.endswith("lost (permitted: acks=1 promises nothing across a change of leader).")
    raw["reasons"].append("1 acknowledged message is lost, permitted: acks=0 promises nothing.")
    sentence = verdict_sentence(Findings.model_validate(raw))
    assert sentence.endswith("across a change of leader; acks=0 promises nothing).")
    raw["reasons"] = []
    assert verdict_sentence(Findings.model_validate(raw)).endswith("lost (permitted).")


def test_what_a_step_deleted_is_not_told_twice(raw: dict[str, Any]) -> None:
    """It is among the lost; what the topic's settings removed is not."""
    raw["anomalies"].append(anomaly(raw, "lost") | {"name": "removed"})
    assert "removed" not in verdict_sentence(Findings.model_validate(raw))
    next(f for f in raw["fates"] if (f["outcome"], f["stored"]) == ("acked", "0"))["count"] += 5
    assert "5 removed as configured" in verdict_sentence(Findings.model_validate(raw))


def test_messages_that_were_stuck_are_shown(raw: dict[str, Any]) -> None:
    """By group, with what that means."""
    raw["faults"][0]["stuck"] = {"billing": 4321}
    text = to_text(Findings.model_validate(raw), Path("runs/x")).plain
    assert "stuck for billing 4,321 until after the heal" in text


def test_text_report_contains_every_finding(findings: Findings) -> None:
    """Reasons, proof, times, fates with their sum, anomalies with examples, groups, latency, the folder."""
    text = to_text(findings, Path("runs/x")).plain
    alone = findings.faults[0].model_copy(update={"sent_in_loss_window": 1})
    one = to_text(findings.model_copy(update={"faults": [alone]}), Path("runs/x")).plain
    assert "loss window 1,990 ms, 1 attempt in it" in one
    for expected in (
        "23 acknowledged messages are lost, permitted: acks=1 promises nothing across a change of leader.",
        "1-kill: kill leader-of orders/0 (broker 1) confirmed: broker 1 (pid 77): gone",
        "leader elected after 9,480 ms",
        "lost 23: 0.6 % of the 3,987 that were acknowledged in the loss window",
        "loss window 1,990 ms, 3,990 attempts in it",
        "affected 1,234 of 5,678 messages attempted in the partitions that it hit: in each, from its effect "
        "to the end of the silence",
        "lost          23         23          0  deposed-leader 23 (5 examples)",
        "duplicate      7          7          0  8 extra copies",
        "billing (classic): drained, 39,977 messages delivered",
        "producer 0 on orders/0: 10,012 ms (no acknowledgement ended it)",
        "Run folder: runs/x",
    ):
        assert expected in text, expected
    assert "The fates add up to the 40,000 messages sent." in text
    assert text.count("is gone") == 3


SECOND = 1_000_000_000


def test_text_report_shows_members_lag_and_rebalances(raw: dict[str, Any]) -> None:
    """The records of each member, idle ones by name; each rebalance with its trigger."""
    group = raw["groups"][0]
    group["lag"] = {"max": 12_345, "final": 0}
    group["longest_commit_gap_ms"] = 9480.4
    group["members"] = [{"member": f"member-{n}", "delivered": 20_000 * (n == 1)} for n in (1, 2, 3)]
    rebalance = {
        "group": "billing", "trigger": "member-2 was killed", "started_ns": 3661 * SECOND, "members": 2,
        "ended_ns": 3671 * SECOND, "resumed_ns": 3674 * SECOND,
        "unresumed_partitions": 2, "unowned_partition_seconds": 20.5, "redelivered": 400,
    }  # fmt: skip
    raw["run"]["started_ns"] = 3600 * SECOND
    raw["rebalances"] = [rebalance, {**rebalance, "group": "audit"}, {**rebalance, "ended_ns": None}]
    anomaly(raw, "redelivered")["count"] = 403
    assert "refused" not in to_text(Findings.model_validate(raw), "x").plain
    group["members"][0]["commits_refused"] = 4
    group["members"][1]["anomalies"] = {"poll-skip": 7}
    text = to_text(Findings.model_validate(raw), "x").plain
    for said in (
        "403 records redelivered",
        "no commit for up to 9,480 ms, sampled lag up to 12,345, 0 offsets not committed at the end, "
        "2 rebalances",
        "member-1   20,000                4          0",
        "member-2        0                0          7",
        "idle: member-2, member-3",
        "61.000            member-2 was killed     10,000 ms  13,000 ms (2 not)        2 ",
        "owners after -: some partition never got an owner again",
        "not: partitions of which the new owner was delivered nothing until the next one or the end",
    ):
        assert said in text, said


def test_partition_table_is_shown_for_few_partitions(raw: dict[str, Any]) -> None:
    """A row each; none where there are many, or where nothing came between."""
    told = {"topic": "orders", "leader": 1, "leader_epoch": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3]}
    before = {"when": "before", "at_ns": 1, "partitions": [{**told, "partition": 0}]}
    during = {
        "when": "during",
        "at_ns": 2,
        "partitions": [{**told, "partition": 0, "leader": -1, "isr": [2]}],
    }
    raw["partition_tables"] = [before, during]
    states = "broker 1, epoch 0; ISR 1, 2, 3 no leader, epoch 0; ISR 2"
    assert f"orders/0 1, 2, 3 {states}" in " ".join(_text(raw).split())
    raw["partition_tables"] = [before]
    assert "replicas" not in _text(raw)
    many = {**before, "partitions": [{**told, "partition": n} for n in range(21)]}
    raw["partition_tables"] = [many, many]
    assert "replicas" not in _text(raw)
    raw["partition_tables"] = [before, during]
    raw["faults"][0] |= {"id": "1-move-replicas", "fault": "move-replicas"}
    assert "replicas at first" in _text(raw)  # others, later


def _text(raw: dict[str, Any]) -> str:
    return to_text(Findings.model_validate(raw), "x").plain


def test_fates_that_do_not_add_up_are_not_hidden(raw: dict[str, Any]) -> None:
    """A sum that differs from the messages sent says so in capitals."""
    raw["fates"][0]["count"] += 1
    text = to_text(Findings.model_validate(raw), Path("x")).plain
    assert "NOT to the 40,000 sent" in text


def test_forbidden_anomalies_are_in_the_first_sentence(raw: dict[str, Any]) -> None:
    """A violation names what was forbidden, for the run and for a group."""
    raw["verdict"] = "violated"
    anomaly(raw, "lost")["permitted"] = 20
    anomaly(raw, "unseen")["count"] = 2
    said = verdict_sentence(Findings.model_validate(raw))
    assert said.startswith("VIOLATED: ")
    assert "23 acknowledged messages lost (3 forbidden)" in said
    assert "2 unseen in group billing forbidden" in said


def test_unread_messages_are_in_the_first_sentence(raw: dict[str, Any]) -> None:
    """What was not read back is in the first sentence."""
    raw["verdict"] = "inconclusive"
    raw["totals"]["unread"] = 1234
    said = verdict_sentence(Findings.model_validate(raw))
    assert said.startswith("INCONCLUSIVE: ") and "1,234 not read back" in said


def test_high_watermark_arithmetic_that_hides_losses_is_explained(findings: Findings) -> None:
    """Acknowledged less end offsets says 12, the truth is 23: recovered and copies stand in for 11."""
    assert arithmetic_sentence(findings) == (
        "39,997 acknowledged minus 39,985 in the end offsets gives 12 lost; the exact count is 23: "
        "the end offsets also count 3 recovered and 8 extra copies."
    )


def test_correct_high_watermark_arithmetic_is_not_mentioned(raw: dict[str, Any]) -> None:
    """Where both answers agree there is nothing to explain."""
    raw["high_watermark_arithmetic"]["difference"] = 23
    assert arithmetic_sentence(Findings.model_validate(raw)).endswith("the exact count is 23.")


def test_sums_over_groups_and_started_processes_are_named(raw: dict[str, Any]) -> None:
    """Two groups get each message twice; a JVM that starts uses CPU time for no message."""
    mean = {"when": "before", "seconds": 9, "sent_per_s": 400, "acked_per_s": 400, "delivered_per_s": 800}
    raw["rates"] |= {"ordered_per_s": 400, "means": [mean], "cpu_us_per_message": 680}
    alone = to_text(Findings.model_validate(raw), "x").plain
    assert "delivered per s\n" in alone and "µs for each acknowledged message\n" in alone
    raw["groups"].append({**raw["groups"][0], "group": "audit"})
    raw["rates"]["cpu_processes_begun"] = 2
    text = to_text(Findings.model_validate(raw), "x").plain
    assert "delivered per s, 2 groups together" in text
    assert "680 µs for each acknowledged message, including the start of 2 processes" in text


def _arithmetic(raw: dict[str, Any], acked: int, end_offsets: int, log_records: int, holes: int) -> str:
    """With 23 lost of `acked`, 3 recovered, and 8 extra copies."""
    difference = acked - end_offsets
    sums = {"acked": acked, "end_offsets": end_offsets, "difference": difference, "holes": holes}
    raw["high_watermark_arithmetic"] = sums
    raw["totals"] |= {"acked": acked, "log_records": log_records}
    return arithmetic_sentence(Findings.model_validate(raw)).partition("is 23: ")[2]


def test_markers_and_lost_offsets_are_named(raw: dict[str, Any]) -> None:
    """393 offsets have no record: what is lost left holes, and transactions have markers."""
    holes = "393 offsets without a record (markers of transactions, or what was removed)"
    assert _arithmetic(raw, 39_997, 40_378, 39_985, 393) == (
        f"the end offsets also count 3 recovered, 8 extra copies and {holes}."
    )


def test_only_markers_have_no_record_where_nothing_was_removed(raw: dict[str, Any]) -> None:
    """Of each cluster; and the copies that are taken off are counted."""
    raw["high_watermark_arithmetic"] = {
        "acked": 39_997, "end_offsets": 40_378, "mirrored": 700, "difference": -381, "holes": 393,
        "markers": {"dc1": 1, "dc2": 392},
    }  # fmt: skip
    raw["mirrors"] = [
        {
            "mirror": "dc1->dc2", "source": "dc1", "target": "dc2", "topics": ["orders"], "drained": True,
            "acknowledged": 700, "mirrored": 700, "unmirrored": 0, "rpo_messages": 0,
        }
    ]  # fmt: skip
    raw["groups"][0]["lag"] = {"max": 3, "final": 2, "final_without_record": 2}
    found = Findings.model_validate(raw)
    assert arithmetic_sentence(found) == (
        "39,997 acknowledged minus 40,378 in the end offsets of all clusters (without 700 mirrored copies) "
        "gives -381 lost; the exact count is 23: the end offsets also count 3 recovered, 8 extra copies, "
        "1 marker of a transaction in dc1 and 392 markers of transactions in dc2."
    )
    text = to_text(found, "x").plain
    assert "2 offsets not committed at the end, behind the last record (markers of transactions)" in text
    raw["groups"][0]["lag"]["final"] = 3
    text = to_text(Findings.model_validate(raw), "x").plain
    assert "3 offsets not committed at the end, 2 of them behind the last record (markers" in text


def test_messages_of_aborted_transactions_are_named(raw: dict[str, Any]) -> None:
    """They were acknowledged, and the log has them; no reader is given them."""
    raw["fates"].append({"outcome": "acked", "stored": "uncommitted", "count": 4})
    assert _arithmetic(raw, 40_001, 39_990, 39_989, 1) == (
        "the end offsets also count 3 recovered, 8 extra copies, 4 records that readers are not given and "
        "1 offset without a record (markers of transactions, or what was removed); "
        "4 acknowledged messages are of transactions that were not committed."
    )


def test_difference_that_no_count_explains_is_not_called_anything(raw: dict[str, Any]) -> None:
    """Neither a loss nor none."""
    assert _arithmetic(raw, 40_000, 39_985, 39_985, 0) == "what else makes the difference is not known."


def test_fault_without_effect_is_reported(raw: dict[str, Any]) -> None:
    """A fault that did not bite is not called one that did."""
    raw["faults"][0] |= {"bit": False, "effective_ns": None, "proof": "no target was running"}
    text = to_text(Findings.model_validate(raw), Path("x")).plain
    assert "had no effect: no target was running" in text


def test_empty_run_renders(raw: dict[str, Any]) -> None:
    """No faults, groups, fates or latencies: empty sections are left out, nothing fails."""
    raw |= {"faults": [], "groups": [], "fates": [], "unavailability": [], "reasons": [], "notes": []}
    raw["latency_ms"] = {"ack": {}, "end_to_end": {}}
    raw["totals"]["sent"] = 0
    raw["run"] |= {"kafka": None, "title": "", "scenario": "mine"}
    text = to_text(Findings.model_validate(raw), Path("x")).plain
    assert "Faults" not in text and "Latency" not in text and "Published" not in text
    assert "Kafka of unknown version" in text


def test_fault_with_a_failed_heal_is_reported_as_effective(raw: dict[str, Any]) -> None:
    """It took effect, and its heal failed."""
    raw["faults"][0] |= {"bit": False, "proof": "cut; the heal failed: EPERM"}
    text = to_text(Findings.model_validate(raw), Path("x")).plain
    assert "took effect, but is not fully proven: cut; the heal failed: EPERM" in text


@pytest.mark.parametrize(
    ("acked_per_s", "text"),
    [
        (1_900.0, "2,000 sent and 1,900 acknowledged per second on average"),
        (9_999.25, "2,000 sent per second for 20.0 s, 9,999 acknowledged per second for 4.0 s, on average"),
    ],
)
def test_rates_name_their_times_if_acknowledgements_ended_sooner(
    raw: dict[str, Any], acked_per_s: float, text: str
) -> None:
    """A rate of four seconds is none of all twenty."""
    raw["rates"] |= {"sent_per_s": 2_000.0, "acked_per_s": acked_per_s}
    assert text in to_text(Findings.model_validate(raw), "x").plain


def test_text_report_shows_rates_and_resized_topics(raw: dict[str, Any]) -> None:
    """Seconds below the ordered rate, means around the faults; partitions, keys and what a group missed."""
    slump = {"what": "acked", "below_per_s": 800.0, "longest_s": 11, "total_s": 12}
    mean = {"when": "during", "seconds": 13, "sent_per_s": 1000, "acked_per_s": 312.5, "delivered_per_s": 300}
    raw["rates"] |= {"ordered_per_s": 1000.0, "slumps": [slump], "means": [mean]}
    group = {"group": "billing", "partitions_read": 49, "out_of_order_by_key": 17, "stored_too_early": 23}
    raw["resized"] = [
        {
            "topic": "orders", "partitions_before": 3, "partitions": 50, "partitions_written": 50,
            "keys": 1000, "keys_moved": 981, "groups": [group, {**group, "out_of_order_by_key": None}],
        }
    ]  # fmt: skip
    text = " ".join(_text(raw).split())
    for said in (
        "acked: below 800 for up to 11 whole seconds, 12 in total",
        "during 13 1,000 312 300",
        "orders: 3 partitions, then 50, 50 of them written; 981 of 1,000 keys moved to another partition",
        "billing 49 17 23",
        "billing 49 - 23",
    ):
        assert said in text, said
    assert "981 of 1,000 keys moved" in to_markdown(Findings.model_validate(raw))
    assert "981 of 1,000 keys moved" in html.render(document(JudgedRun(Findings.model_validate(raw))))


def test_setup_line_lists_brokers_topics_producers_and_groups() -> None:
    """Brokers with their timeouts, topics with replicas, producers with acks, groups with members."""
    scenario = load_builtin("broker-killed", ["cluster.config.broker.session.timeout.ms=3000"])
    assert setup(scenario) == (
        "3 brokers, broker.session.timeout.ms=3000; orders: 6 partitions, replication factor 3, "
        "min.insync.replicas=2; 1 producer to orders: acks=all, without idempotence; group billing: 3 members"
    )


def test_setup_line_says_what_tells_clients_apart() -> None:
    """A late producer, timestamps that are off, and members of both protocols in a group."""
    changed = {
        "producers.0.starts": "6s",
        "producers.0.timestamps": "-100h",
        "groups.0.consumer-members": "1",
    }
    line = setup(load_builtin("broker-killed", [f"workload.{name}={to}" for name, to in changed.items()]))
    assert "without idempotence, starting 6s later, timestamps 100 h behind" in line
    assert line.endswith("group billing: 3 members, 1 of them with the consumer protocol")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("-20000d", "20,000 d behind"),
        ("365d", "365 d ahead"),
        ("90s", "90 s ahead"),
        ("90m", "90 m ahead"),
        ("2h", "2 h ahead"),
    ],
)
def test_setup_line_has_the_largest_unit_of_timestamps(given: str, shown: str) -> None:
    line = setup(load_builtin("broker-killed", [f"workload.producers.0.timestamps={given}"]))
    assert f", timestamps {shown};" in line


def test_setup_line_says_what_steps_make_of_it() -> None:
    """Brokers that join, partitions that are added, and more replicas of everything."""
    line = setup(load_builtin("replication-factor-1-fixed"))
    assert line.startswith(
        "1 broker (later 3); orders: 1 partition (later 4), replication factor 1 (later 3); 1 producer"
    )


def test_returning_leader_is_not_described_as_a_change(raw: dict[str, Any]) -> None:
    """It took over from nobody, and there were no two leaders."""
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 2, "leader": 1,
        "first_ack_ns": 900_000_000, "last_deposed_ack_ns": 51_000_000, "deposed_acks": 1200, "lost": 1100,
        "old_leader": 1, "offsets_used_twice": 3,
    }  # fmt: skip
    assert leader_sentences(JudgedRun(Findings.model_validate(raw | {"leader_changes": [change]}))) == [
        "orders/0: broker 1 came back as leader (epoch 2), its first acknowledgement 300 ms after the "
        "election, without 1,200 messages that it had acknowledged, 1,100 of them lost."
    ]


@pytest.mark.parametrize(
    ("lost", "seen", "words"),
    [
        (1, 1, "the lost message was seen"),
        (2, 2, "both lost messages were seen"),
        (3, 3, "all 3 lost messages were seen"),
        (3, 2, "2 of the 3 lost messages were seen"),
        (3, 1, "1 of the 3 lost messages was seen"),
    ],
)
def test_how_many_of_the_lost_were_seen_on_a_disk(
    raw: dict[str, Any], lost: int, seen: int, words: str
) -> None:
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 1, "leader": 2,
        "old_leader": 1, "deposed_acks": lost, "lost": lost, "lost_seen": {"1": seen}, "lost_unseen": 0,
    }  # fmt: skip
    (one,) = leader_sentences(JudgedRun(Findings.model_validate(raw | {"leader_changes": [change]})))
    assert f", {words} on broker 1's disk before its log was truncated" in one


@pytest.mark.parametrize(("fault", "ends"), [("1-move-replicas", False), ("1-isolate", True)])
def test_what_never_ends_has_no_losses_after_its_heal(raw: dict[str, Any], fault: str, ends: bool) -> None:
    """A change of leader that a step asked for was planned, also if the old replica went with it."""
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 2, "leader": 2, "fault": fault,
        "first_ack_ns": 900_000_000, "last_deposed_ack_ns": 610_000_000, "deposed_acks": 55, "lost": 55,
        "old_leader": 1, "lost_after_heal": 55,
    }  # fmt: skip
    raw["faults"][0] |= {"id": fault, "fault": fault.partition("-")[2], "lost": 55, "lost_after_heal": 55}
    raw["leader_changes"] = [change]
    (sentence,) = leader_sentences(JudgedRun(Findings.model_validate(raw)))
    assert ("after the heal" in sentence, "acknowledged after the heal" in _text(raw)) == (ends, ends)
    assert ("(epoch 2), a planned change" in sentence) == (not ends)


@pytest.mark.parametrize(("retries", "twice"), [("5", True), ("0", False)])
def test_only_what_is_retried_may_be_stored_twice(findings: Findings, retries: str, twice: bool) -> None:
    """By the producer's own setting."""
    scenario = load_builtin("broker-killed", [f"workload.producers.0.config.retries={retries}"])
    assert ("may store a message twice" in str(configuration(JudgedRun(findings, scenario)))) == twice


@pytest.mark.parametrize(("in_flight", "reorders"), [("5", True), ("1", False)])
def test_only_several_requests_in_flight_change_their_order(
    findings: Findings, in_flight: str, reorders: bool
) -> None:
    """By the producer's own setting; a million by default."""
    name = "workload.producers.0.config"
    scenario = load_builtin("broker-killed", [f"{name}.max.in.flight={in_flight}"])
    unset = load_builtin("broker-killed")
    assert ("twice, or out of order" in str(configuration(JudgedRun(findings, scenario)))) == reorders
    assert "twice, or out of order" in str(configuration(JudgedRun(findings, unset)))


def test_anomalies_that_the_run_could_not_have_are_apart(raw: dict[str, Any]) -> None:
    """By what the findings have, and for a pipe the scenario."""
    absent = {a["name"] for a in raw["anomalies"] if not a["count"]}
    looked, nothing = _without_anomalies(raw)
    assert "ghost, phantom" in looked and "unseen, redelivered" in looked
    assert nothing == (
        "Nothing to look for: lost-in-store (no store), torn-transaction, lost-commit, hanging-transaction, "
        "aborted-read (no transaction), unmirrored, mirrored-twice, mirror-reordered, looped, "
        "translated-ahead, translated-behind (no mirror), double-accept, delivered-after-accept, "
        "over-delivered, lost-release (no share group), processed-twice, unprocessed (no pipe)."
    )
    assert all(name in looked + nothing for name in absent)
    counts = {"committed": 0, "aborted": 0, "unknown": 0, "messages": 0}
    raw["transactions"] = counts  # of a mirror: a last stable offset stalled
    looked, nothing = _without_anomalies(raw)
    assert "hanging-transaction" in looked and "aborted-read (no transaction of a producer)" in nothing
    raw["transactions"] = {**counts, "aborted": 1}
    assert "torn-transaction, lost-commit, hanging-transaction" in _without_anomalies(raw)[0]
    raw["groups"][0]["type"] = "share"
    assert "double-accept" in _without_anomalies(raw)[0]
    raw["groups"] = []
    looked, nothing = _without_anomalies(raw)
    assert "unseen" not in looked and "processed-twice, unprocessed (no group)." in nothing


def _without_anomalies(raw: dict[str, Any]) -> tuple[str, str]:
    """The two sentences of the section."""
    run = JudgedRun(Findings.model_validate(raw), load_builtin("broker-killed"))
    said = [plain(one.text) for one in anomalies(run).blocks if isinstance(one, Paragraph)]
    return said[0], said[1]


def test_leaders_that_did_not_change(raw: dict[str, Any]) -> None:
    """Only where each epoch is known and the same; other topics are counted."""
    place = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "replicas": [1], "isr": [1]}
    tables = [{"when": when, "at_ns": 1, "partitions": [dict(place)]} for when in ("before", "after")]
    raw["partition_tables"] = tables
    raw["led_elsewhere"] = {"__consumer_offsets": 2, "__share_group_state": 1}
    elsewhere = "Of other topics, 3 partitions got another leader (__consumer_offsets, __share_group_state)."
    assert _leaders(raw) == ["No leader of the run's topics changed.", elsewhere]
    for epoch in (5, None):
        tables[1]["partitions"][0]["leader_epoch"] = epoch
        assert _leaders(raw) == [elsewhere]


def _leaders(raw: dict[str, Any]) -> list[str]:
    part = leaders.section(JudgedRun(Findings.model_validate(raw)))
    assert part is not None and part.title == "Leaders"
    return [item for one in part.blocks if isinstance(one, Bullets) for item in one.items]


def test_figures_say_what_they_measure(raw: dict[str, Any]) -> None:
    """A silence from a fault's effect on is not that of the headline; a standstill is that of everything."""
    row = {"load_s": 60, "standstill_s": 0, "standstills": 0, "longest_standstill_ms": 0, "messages": 9}
    raw["availability"] = [{**row, "within_1s": 9, "within_1s_share": 1}]
    figures = {one.name: one for one in head(JudgedRun(Findings.model_validate(raw))).figures}
    silence = figures["longest silence after a fault"]
    assert (silence.value, silence.remark) == ("10,012 ms", "of one partition")
    assert figures["standstill of all partitions"].value == "0.0 s"
    text = to_text(Findings.model_validate(raw), "x").plain
    assert "first acknowledgement by a new leader after 9,900 ms" in text


def test_unclean_election_is_named(raw: dict[str, Any]) -> None:
    """Also of a leader that came back, as Kafka elects the last known one; not if it is not known."""
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 2, "leader": 1,
        "old_leader": 1, "without_leader_ms": 1615.0, "unclean": True,
    }  # fmt: skip

    def told() -> str:
        (one,) = leader_sentences(JudgedRun(Findings.model_validate(raw | {"leader_changes": [change]})))
        return one

    assert told().startswith(
        "orders/0: broker 1 came back as leader (epoch 2), by an unclean election (it was neither in the ISR "
        "nor an eligible leader replica), after 1,615 ms without a leader, "
    )
    assert told().endswith(", nothing that it had acknowledged was overwritten.")
    for setting in ("true", "false"):
        name = f"topics.0.config.unclean.leader.election.enable={setting}"
        run = JudgedRun(
            Findings.model_validate(raw | {"leader_changes": [change]}), load_builtin("noop", [name])
        )
        anyway = ": Kafka elects the last known leader like this even with unclean leader election off)"
        assert (anyway in leader_sentences(run)[0]) == (setting == "false")
    for value in (False, None):
        change["unclean"] = value
        assert "unclean" not in told()


def test_metadata_delay_is_shown_per_client(raw: dict[str, Any]) -> None:
    """One producer of a kind, several, and librdkafka alone, of which nothing is reported."""
    ours = {"client": "librdkafka", "producers": 1, "first_ms": 300.0, "last_ms": 300.0}
    java = {"client": "java 3.9.2", "producers": 3, "first_ms": 500.0, "last_ms": 2000.0}
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 1, "leader": 2,
        "old_leader": 1, "first_ack_ns": 900_000_000, "learned": [java, ours],
    }  # fmt: skip
    (both,) = leader_sentences(JudgedRun(Findings.model_validate(raw | {"leader_changes": [change]})))
    assert (
        "300 ms after the election, first acknowledged to 3 producers of java 3.9.2 500 ms to 2,000 ms after "
        "it and to librdkafka's producer 300 ms after it," in both
    )
    (own,) = leader_sentences(
        JudgedRun(Findings.model_validate(raw | {"leader_changes": [change | {"learned": [ours]}]}))
    )
    assert "acknowledged to" not in own


def _judged(history: History, path: Path) -> tuple[Findings, str, str]:
    folder = history.read_to_end().write(path)
    findings = findings_in(folder)
    return findings, to_text(findings, path).plain, to_html(folder, findings)


def test_transaction_outcomes_and_longest_lso_stall_are_shown(tmp_path: Path) -> None:
    """On the screen and on the page; what never committed is a column of its own among the fates."""
    history = History().acked(0, 0, 0).transaction(0, 0, 0).hidden(0, 1, 2).transaction(1, 1, 1, "aborted")
    history.stable(2, 3, 100).stable(2, 3, 1_350).stable(4, 4, 1_600)
    findings, text, page = _judged(history, tmp_path)
    said = [
        "2 transactions of 2 messages: 1 committed, 1 aborted, 0 of unknown outcome; 1 message not committed",
        "the last stable offset of orders/0 stood still for at least 1,250 ms (sampled): "
        "read_committed readers got nothing newer",
    ]
    assert transaction_sentences(findings) == said
    assert all(sentence in text and sentence in page for sentence in said)
    assert fates_table(findings).header[-2] == "not committed"
    assert all("The fates add up to the" in shown for shown in (text, page))
    assert "not committed" in text and "not committed</th>" in page


def test_what_never_committed_is_only_known_where_partitions_were_read(tmp_path: Path) -> None:
    """A run that was ended before its drain."""
    folder = History().sent(0, 0, 0).transaction(0, 0, 0, "aborted").write(tmp_path)
    first, *_ = transaction_sentences(findings_in(folder))
    assert first.endswith("; 0 messages not committed, as far as partitions were read")


def test_run_without_transactions_has_no_transaction_section(tmp_path: Path) -> None:
    """Neither a section nor a column."""
    findings, text, page = _judged(History().acked(0, 0, 0), tmp_path)
    assert transaction_sentences(findings) == []
    assert "Transactions\n" not in text and "<h2>Transactions</h2>" not in page
    assert "not committed" not in fates_table(findings).header


@pytest.mark.parametrize(
    ("producers", "reads", "said"),
    [
        (["orders"], ["orders"], False),
        (["orders", "audit"], ["orders"], True),
        (["orders", "audit"], ["orders", "audit"], False),
        (["orders", "audit"], ["^o"], False),
    ],
)
def test_messages_that_a_group_does_not_read_are_explained(
    raw: dict[str, Any], producers: list[str], reads: list[str], said: bool
) -> None:
    """Its fates are of all messages; a pattern may match any topic."""
    workload = {
        "producers": [{"topic": topic, "messages": 1} for topic in producers],
        "groups": [{"id": "billing", "topics": reads}],
    }
    topics = [{"name": topic} for topic in ("orders", "audit")]
    scenario = Scenario.model_validate({"version": 1, "title": "x", "topics": topics, "workload": workload})
    page = html.render(document(JudgedRun(Findings.model_validate(raw), scenario)))
    assert ("also messages of topics that it does not read" in page) is said


def test_messages_that_a_group_reads_as_copies_are_not_called_unread(raw: dict[str, Any]) -> None:
    """It reads what a mirror copies from the other cluster."""
    findings = Findings.model_validate_json(json.dumps(raw).replace("billing", "audit"))
    page = html.render(document(JudgedRun(findings, load_builtin("mirror"))))
    assert "audit" in page
    assert "topics that it does not read" not in page


@pytest.mark.parametrize(("reads", "said"), [("dc1", True), ("dc2", False)])
def test_messages_of_a_cluster_that_a_group_does_not_read_are_explained(
    raw: dict[str, Any], reads: str, said: bool
) -> None:
    """A mirror copies dc1 to dc2, so a group in dc2 gets everything, and one in dc1 nothing of dc2's own."""
    described = load_builtin("mirror").model_dump(by_alias=True, exclude_unset=True)
    producer = described["workload"]["producers"][0]
    described["workload"]["producers"] = [{**producer, "cluster": cluster} for cluster in ("dc1", "dc2")]
    group = {**described["workload"]["groups"][0], "id": "billing", "cluster": reads}
    described |= {"workload": described["workload"] | {"groups": [group]}, "plan": []}
    scenario = Scenario.model_validate(described)
    page = html.render(document(JudgedRun(Findings.model_validate(raw), scenario)))
    assert ("also messages of clusters that it does not read" in page) is said


def test_what_was_redelivered_to_two_members_is_explained(raw: dict[str, Any]) -> None:
    """One record counts for each of them."""
    (group,) = (one for one in raw["groups"] if one["group"] == "billing")
    note = "What was redelivered counts for each member that received it."
    assert note not in html.render(document(JudgedRun(Findings.model_validate(raw))))
    group["members"] = [{"member": "m1", "delivered": 1, "anomalies": {"redelivered": 1_000_000}}]
    assert note in html.render(document(JudgedRun(Findings.model_validate(raw))))


def test_configuration_has_racks_and_how_groups_assign(findings: Findings) -> None:
    """What decides where replicas and partitions are."""
    changed = ["cluster.racks=[a, b, c]", "workload.groups.0.assignor=cooperative-sticky"]
    scenario = load_builtin("broker-killed", changed)
    shown = str(configuration(JudgedRun(findings, scenario)))
    assert "kraft, racks a, b, c in turn" in shown
    assert "3 members, type classic, cooperative-sticky" in shown


def test_configuration_has_the_stores_of_what_kafka_does_not_take(findings: Findings) -> None:
    shown = str(configuration(JudgedRun(findings, load_builtin("kafka-away-store-dies"))))
    assert "is kept in far (opensearch), then local (sqlite); policy spill" in shown


def test_rate_that_was_never_reached_is_below_it_in_each_second(raw: dict[str, Any]) -> None:
    mean = {"when": "during", "seconds": 13, "sent_per_s": 1000, "acked_per_s": 312.5, "delivered_per_s": 300}
    slump = {"what": "acked", "below_per_s": 800.0, "longest_s": 13, "total_s": 13}
    raw["rates"] |= {"ordered_per_s": 1000.0, "slumps": [slump], "means": [mean]}
    assert "acked: below 800 in each of the 13 whole seconds of the load" in _text(raw)


@pytest.mark.parametrize(
    ("name", "fault", "apart"),
    [
        ("leader-cut-from-controllers-acks-1", "cut", " from controllers"),
        ("leader-isolated-acks-1", "isolate", ""),  # from everything
        ("leader-cut-from-controllers-acks-1", "kill", ""),  # another step's id
    ],
)
def test_a_cut_says_from_what(raw: dict[str, Any], name: str, fault: str, apart: str) -> None:
    raw["faults"][0] |= {"id": f"1-{fault}", "fault": fault, "target": "leader-of orders/0", "brokers": [1]}
    findings = Findings.model_validate(raw)
    shown = target_of(findings.faults[0], JudgedRun(findings, load_builtin(name)))
    assert shown == f"leader-of orders/0 (broker 1){apart}"
