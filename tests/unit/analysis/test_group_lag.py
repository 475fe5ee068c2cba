"""Lags by hand: how far a group was behind, and the backlog that a fault left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.analysis.facts.lag import LagSample, backlog, series
from kaput.core import SECOND

FOREVER = 10**9


def sampled(group: str, *lags: int, **more: str) -> Iterator[dict[str, Any]]:
    """Ten units of time apart, from 10 on, in two halves: of two partitions."""
    for number, lag in enumerate(lags):
        for partition, value in enumerate((lag // 2, lag - lag // 2)):
            labels = [("group", group), ("topic", "orders"), ("partition", str(partition))]
            at_ns = 10 * (number + 1)
            yield {"name": "lag", "at_ns": at_ns, "value": float(value), "labels": labels, **more}


@pytest.mark.parametrize(
    ("lags", "until", "found"),
    [
        ((3, 5, 9, 8, 5, 0), FOREVER, (30, 50, 9)),  # no more than it had been is enough
        ((3, 5, 9, 5, 6, 4), FOREVER, (30, 40, 9)),  # the first time that it was back
        ((3, 5, 5, 4, 9, 5), FOREVER, (50, 60, 9)),
        ((3, 5, 5, 4, 0, 0), FOREVER, None),  # it never rose
        ((3, 5, 9, 11, 9, 9), FOREVER, (30, None, 11)),  # it never came back
        ((3, 5, 9, 8, 5, 0), 40, (30, 50, 9)),  # another fault came before it was back
        ((3, 5, 5, 8, 5, 0), 40, None),  # or before it rose
    ],
)
def test_backlog_of_a_group(
    lags: tuple[int, ...], until: int, found: tuple[int, int | None, int] | None
) -> None:
    """The fault takes hold at 25; until then the greatest lag was 5."""
    seen = backlog(series(sampled("billing", *lags), {})["billing"], 25, until)
    assert (seen and (seen.from_ns, seen.to_ns, seen.greatest)) == found


def test_without_a_sample_from_before_no_backlog_is_known() -> None:
    """What the group lagged before the fault is not known."""
    assert backlog(series(sampled("billing", 3, 9, 3), {})["billing"], 10, FOREVER) is None


def test_lag_stopped_growing_after_the_last_sample_with_the_greatest() -> None:
    """The last of several samples with the greatest lag."""
    seen = backlog(series(sampled("billing", 1, 2, 9, 9, 7, 1), {})["billing"], 25, FOREVER)
    assert seen is not None
    assert (seen.before, seen.greatest_at_ns, seen.grew_until_ns, seen.shrank_ns) == (2, 30, 40, 50)


def test_samples_that_are_seconds_apart_do_not_tell_when_a_lag_stopped_growing() -> None:
    """No leader answered for 11 s."""
    rows = zip((1, 2, 13, 14), (1, 2, 9, 1), strict=True)
    samples = [LagSample(seconds * SECOND, lag, True) for seconds, lag in rows]
    seen = backlog(samples, 2 * SECOND + 1, 100 * SECOND)
    assert seen is not None and (seen.grew_until_ns, seen.shrank_ns) == (13 * SECOND, 14 * SECOND)


def test_lag_is_summed_over_partitions() -> None:
    """By group and moment; what is no lag is none."""
    rows = [*sampled("a", 3, 5), {"name": "isr", "at_ns": 10, "value": 9.0, "labels": [("group", "a")]}]
    assert series(rows, {}) == {"a": [LagSample(10, 3, True), LagSample(20, 5, True)]}


def test_lag_of_the_whole_group_counts_where_no_partition_is_sampled() -> None:
    """Some writers know no more."""
    rows = [{"name": "group_lag", "at_ns": n, "value": 4.0, "labels": [("group", "a")]} for n in (10, 90)]
    assert [one.lag for one in series([*rows, *sampled("a", 3)], {})["a"]] == [3, 4]


def test_a_partition_that_did_not_answer_drains_nothing() -> None:
    """Its leader is away: the others lag no more than before, and of it nothing is known until it is back."""
    rows = list(sampled("a", 4, 4, 9, 8, 8, 2))
    rows = [row for row in rows if row["at_ns"] not in (40, 50) or row["labels"][2][1] == "0"]
    seen = backlog(series(rows, {})["a"], 25, FOREVER)
    assert seen is not None and (seen.from_ns, seen.to_ns) == (30, 60)


def test_a_group_that_moved_lags_where_it_is() -> None:
    """Whatever is stored in the cluster that it left, and whatever was in the other one before it came."""
    rows = [*sampled("a", 1, 2, 30, 40, cluster="dc1"), *sampled("a", 90, 90, 3, 1, cluster="dc2")]
    where = {"a": [(5, "dc1"), (30, "dc2")]}
    assert series(rows, where) == {
        "a": [LagSample(10, 1, True), LagSample(20, 2, True), LagSample(30, 3, True), LagSample(40, 1, True)]
    }


def _paused_follower(lags: dict[int, int], healed_ms: int = 20_000) -> History:
    history = History(producers=[{"topic": "orders", "acks": 1}], groups={"billing": True}).acked(0, 0, 0)
    for ms, lag in lags.items():
        labels = [("group", "billing"), ("topic", "orders"), ("partition", "0")]
        history.add("samples", at_ns=at(ms), source="kaput", name="lag", labels=labels, value=float(lag))
    return history.fault(3, 10_000, healed_ms, fault="pause")


def test_what_was_drained_before_the_heal_did_not_wait_for_it(tmp_path: Path) -> None:
    """The member was slow by itself."""
    lags = {9_000: 3, 11_000: 100, 13_000: 190, 15_000: 3, 21_000: 0}
    (fault,) = judged(_paused_follower(lags), tmp_path).faults
    assert (fault.backlog_drained_ms, fault.lag_ended_by) == (5_000, "unknown")


@pytest.mark.parametrize(("unfenced_ms", "by"), [(14_500, "heal"), (15_500, "unknown")])
def test_a_broker_that_is_not_back_yet_ends_no_lag(unfenced_ms: int, by: str, tmp_path: Path) -> None:
    """Its process was started as the lag turned, at 14 s: it serves once it is unfenced."""
    lags = {9_000: 3, 11_000: 100, 13_000: 190, 14_000: 200, 15_000: 150, 16_000: 0}
    history = _paused_follower(lags, 14_000)
    history.rows["faults"][0] |= {"fault": "kill", "id": "1-kill"}
    history.add("cluster_events", kind="unfenced", broker=3, at_ns=at(unfenced_ms), source="controller")
    assert judged(history, tmp_path).faults[0].lag_ended_by == by


@pytest.mark.parametrize(
    ("healed_ms", "by"), [(13_999, "unknown"), (14_000, "heal"), (15_000, "heal"), (15_001, "unknown")]
)
def test_heal_ends_the_growth_of_a_lag_that_turns_at_it(healed_ms: int, by: str, tmp_path: Path) -> None:
    """Between the last sample with the greatest lag and the next one."""
    lags = {9_000: 3, 11_000: 100, 13_000: 190, 14_000: 200, 15_000: 150, 16_000: 0}
    (fault,) = judged(_paused_follower(lags, healed_ms), tmp_path).faults
    assert (fault.backlog_drained_ms, fault.lag_ended_by) == (6_000, by)


def test_backlog_is_drained_when_the_slowest_group_is_back(tmp_path: Path) -> None:
    """Not while one never was."""
    for last, drained in ((0, 7_000), (9, None)):
        history = _paused_follower({9_000: 3, 11_000: 100, 13_000: 0})
        history.groups["audit"] = True
        for ms, lag in ((9_000, 1), (16_000, 9), (17_000, last)):
            labels = [("group", "audit"), ("topic", "orders"), ("partition", "0")]
            history.add("samples", at_ns=at(ms), source="kaput", name="lag", labels=labels, value=float(lag))
        assert judged(history, tmp_path / str(last)).faults[0].backlog_drained_ms == drained


def _lagging(history: History, group: str, lags: dict[int, int], **more: Any) -> History:
    for ms, lag in lags.items():
        labels = [("group", group), ("topic", "orders"), ("partition", "0")]
        row = {"at_ns": at(ms), "source": "kaput", "name": "lag", "labels": labels, "value": float(lag)}
        history.add("samples", **row, **more)
    return history


@pytest.mark.parametrize(
    ("fault", "target", "groups"),
    [
        ("kill", "member 2 of audit", {"audit"}),
        ("pause", "members 1, 2 of billing", {"billing"}),
        ("change-config", "topic bills", {"audit"}),
        ("kill", "producer 0", {"audit", "billing"}),
        ("noop", "broker 1", set()),
    ],
)
def test_a_backlog_is_of_groups_that_the_fault_can_reach(
    fault: str, target: str, groups: set[str], tmp_path: Path
) -> None:
    """The lag of both groups rises at the same time."""
    history = History(
        topics=[{"name": "orders"}, {"name": "bills"}],
        groups={"audit": True, "billing": True},
        subscriptions={"billing": ["orders"]},
    ).acked(0, 0, 0)
    for group in history.groups:
        _lagging(history, group, {9_000: 3, 11_000: 100, 13_000: 0})
    history.fault(1, 10_000, 20_000, fault=fault, target=target)
    history.rows["faults"][0]["brokers"] = []
    found = judged(history, tmp_path)
    assert {claim.group for claim in found.claims if claim.kind == "backlog"} == groups


@pytest.mark.parametrize(
    ("target", "where", "groups"),
    [
        ("leader-of dc1:orders/0", {"cluster": "dc1", "brokers": [2]}, {"here", "moved"}),
        ("broker 1001", {"cluster": "dc2", "brokers": [1001]}, {"there", "moved"}),
        ("mirror dc1->dc2", {"brokers": []}, {"there", "moved"}),
        ("mirror dc2->dc1", {"brokers": []}, {"here", "moved"}),
    ],
)
def test_a_backlog_is_of_groups_in_the_cluster_that_was_hit(
    target: str, where: dict[str, Any], groups: set[str], tmp_path: Path
) -> None:
    """Also of one that came there before its lag rose."""
    history = History(
        clusters={"dc1": {}, "dc2": {}},
        mirrors=[{"from": "dc1", "to": "dc2", "topics": ["orders"]}],
        groups={"here": True, "there": True, "moved": True},
    ).acked(0, 0, 0, cluster="dc1")
    history.rows["log"][0]["cluster"] = "dc1"
    for group, moves in (("here", {0: "dc1"}), ("there", {0: "dc2"}), ("moved", {0: "dc1", 10_500: "dc2"})):
        for ms, cluster in moves.items():
            history.event("assigned", ms, 0, group=group, cluster=cluster)
        _lagging(history, group, {9_000: 3}, cluster=moves[0])
        _lagging(history, group, {11_000: 100, 13_000: 0}, cluster=list(moves.values())[-1])
    history.fault(1, 10_000, 20_000, fault="pause", target=target)
    history.rows["faults"][0] |= where
    found = judged(history, tmp_path)
    assert {claim.group for claim in found.claims if claim.kind == "backlog"} == groups


def test_a_fault_elsewhere_neither_ends_nor_shares_a_backlog(tmp_path: Path) -> None:
    """That on a member of another group; that on a broker which was back, with a full ISR, only later has a
    part in it.
    """
    history = _paused_follower({9_000: 3, 12_000: 100, 13_000: 190, 15_000: 3}, 10_500)
    for ms, isr in ((-100, [1, 2, 3]), (8_000, [1, 3]), (12_500, [1, 2, 3])):
        history.led(1, 0, ms, isr, kind="isr")
    history.fault(2, 7_000, 9_000, id="2-kill").fault(2, 6_000, 6_500, id="3-kill")
    history.fault(9, 10_200, 10_300, id="4-kill", target="member 1 of audit")
    history.rows["faults"][-1]["brokers"] = []
    (of_pause,) = (one for one in judged(history, tmp_path).faults if one.fault == "pause")
    assert (of_pause.backlog_drained_ms, of_pause.backlog_shared_with) == (5_000, ["2-kill"])


@pytest.mark.parametrize(("sampled_ms", "shared"), [(9_000, []), (8_000, ["2-stop"])])
def test_what_an_earlier_fault_left_counts_until_a_sample_shows_it(
    sampled_ms: int, shared: list[str], tmp_path: Path
) -> None:
    """A coordinator that does not answer yet leaves no sample between the two."""
    history = _paused_follower({5_000: 3, sampled_ms: 3, 11_000: 100, 15_000: 3})
    history.fault(2, 7_000, 8_500, id="2-stop", fault="stop")
    (of_pause,) = (one for one in judged(history, tmp_path).faults if one.fault == "pause")
    assert (of_pause.backlog_drained_ms, of_pause.backlog_shared_with) == (5_000, shared)


@pytest.mark.parametrize(("healed_ms", "drained"), [(10_900, 5_000), (11_000, 5_000), (10_800, None)])
def test_a_backlog_begins_before_the_end_of_recovery(
    healed_ms: int, drained: float | None, tmp_path: Path
) -> None:
    """Up to the first sample since the heal: a later rise is not the fault's."""
    lags = {9_000: 3, 10_850: 3, 11_000: 100, 15_000: 3}
    assert judged(_paused_follower(lags, healed_ms), tmp_path).faults[0].backlog_drained_ms == drained


def test_final_lag_of_a_moved_group_is_that_of_its_last_cluster(tmp_path: Path) -> None:
    """Nobody will ever commit in the first one again."""
    history = History(
        clusters={"dc1": {}, "dc2": {}},
        mirrors=[{"from": "dc1", "to": "dc2", "topics": ["orders"], "groups": ["billing"]}],
        groups={"billing": True},
    )
    for seq in range(5):
        history.sent(0, seq, seq, cluster="dc1").stored(seq, 0, seq, cluster="dc1")
        history.stored(seq, 0, seq, cluster="dc2")
    for ms, cluster, committed in ((0, "dc1", 2), (5_000, "dc2", 4)):
        history.event("assigned", ms, 0, cluster=cluster).event(
            "committed", ms + 1, committed, cluster=cluster
        )
    assert judged(history, tmp_path).groups[0].lag.final == 1


@pytest.mark.parametrize(("healed_ms", "drained_ms"), [(10_000, None), (20_000, 7_000)])
def test_a_change_that_never_ends_leaves_no_backlog_that_comes_later(
    healed_ms: int, drained_ms: int | None, tmp_path: Path
) -> None:
    """A sample after it has no more lag than before; what comes then is not its doing."""
    lags = {9_000: 3, 11_000: 3, 15_000: 190, 17_000: 3, 21_000: 0}
    (fault,) = judged(_paused_follower(lags, healed_ms), tmp_path).faults
    assert fault.backlog_drained_ms == drained_ms
