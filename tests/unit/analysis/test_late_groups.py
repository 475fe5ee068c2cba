"""Groups that do not read what was stored before they began: what they never had to read, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged

LATEST = {"config": {"auto.offset.reset": "latest"}}
SHARE = {"type": "share", "group-config": {"share.auto.offset.reset": "latest"}}
MINUTE = {"type": "share", "group-config": {"share.auto.offset.reset": "by_duration:PT1M"}}
NOBODYS = {"topic": None, "partition": None}


def found(history: History, path: Path) -> tuple[dict[str, tuple[int, int]], str]:
    """Every anomaly's count, and how many of these are permitted; the verdict."""
    findings = judged(history, path)
    counted = {a.name: (a.count, a.permitted) for a in findings.anomalies if a.count}
    return counted, findings.verdict


def late(block: dict[str, Any] = LATEST, messages: tuple[float, ...] = (1_000, 2_000)) -> History:
    """A topic of two partitions; in partition 1 messages that were sent at these times (ms)."""
    history = History(
        topics=[{"name": "orders", "partitions": 2}], groups={"billing": True}, blocks={"billing": block}
    )
    for seq, ms in enumerate(messages):
        times = {"attempt_ns": at(ms), "done_ns": at(ms + 1)}
        history.acked(0, seq, seq, partition=1, **times)
    return history


@pytest.mark.parametrize("block", [LATEST, {"config": {"auto.offset.reset": "largest"}}])
def test_records_before_the_assignment_are_permitted(block: dict[str, Any], tmp_path: Path) -> None:
    """Also of a partition from which nothing was delivered."""
    history = late(block).event("assigned", 5_000, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 2)}, "held")


def test_records_after_the_assignment_are_unseen(tmp_path: Path) -> None:
    """The first was there before; the second was for it."""
    history = late().event("assigned", 1_500, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 1)}, "violated")


@pytest.mark.parametrize("assigned_ms", [1_000, 1_000.5, 1_001])
def test_record_in_flight_at_the_assignment_is_unclear(assigned_ms: float, tmp_path: Path) -> None:
    """It may have been stored before or after that."""
    history = late(messages=(1_000,)).event("assigned", assigned_ms, partition=1)
    findings = judged(history, tmp_path)
    unseen = findings.anomaly("unseen")[0]
    assert (unseen.count, unseen.permitted, findings.verdict) == (1, 0, "inconclusive")
    assert any("when that was is unknown" in reason for reason in findings.reasons)


def test_record_of_unknown_outcome_is_unclear(tmp_path: Path) -> None:
    """It was attempted before the assignment, and no acknowledgement says that it was stored by then."""
    history = late(messages=()).sent(0, 0, 0, "unknown", partition=1).stored(0, 0, 0, partition=1)
    assert found(history.event("assigned", 5_000, partition=1), tmp_path)[1] == "inconclusive"


@pytest.mark.parametrize(("offset", "permitted"), [(0, 0), (1, 1), (2, 2)])
def test_assignment_with_an_offset_sets_the_start(offset: int, permitted: int, tmp_path: Path) -> None:
    history = late().event("assigned", 1_500, offset, partition=1)
    verdict = "held" if permitted == 2 else "violated"
    assert found(history, tmp_path) == ({"unseen": (2, permitted)}, verdict)


@pytest.mark.parametrize(("offset", "permitted"), [(None, 0), (1, 1), (2, 2)])
def test_offset_reset_none_starts_at_the_assigned_position(
    offset: int | None, permitted: int, tmp_path: Path
) -> None:
    """auto.offset.reset=none: it goes on from a commit of an earlier time; times tell nothing."""
    history = late({"config": {"auto.offset.reset": "none"}}).event("assigned", 5_000, offset, partition=1)
    verdict = "held" if permitted == 2 else "violated"
    assert found(history, tmp_path) == ({"unseen": (2, permitted)}, verdict)


def test_gap_between_start_and_first_delivery_is_unseen(tmp_path: Path) -> None:
    """It began at offset 0, and was handed offset 1 first."""
    history = late().event("assigned", 500, 0, partition=1).handed(1, 0, 1, 3_000, partition=1)
    assert found(history, tmp_path) == ({"unseen": (1, 0)}, "violated")


def test_assignment_sets_the_start_in_an_added_partition(tmp_path: Path) -> None:
    """The group had read the other for long; what stood in the new one before it looked is not for it."""
    history = late()
    history.topics[0]["partitions"] = 1
    history.faults = [{"at": "1s", "fault": "resize", "target": "topic orders", "partitions": 2}]
    grown = {"id": "1-resize", "fault": "resize", "target": "topic orders", "effective_ns": at(900)}
    rest = {"brokers": [], "injected_ns": at(899), "healed_ns": at(900), "bit": True, "proof": "2 now"}
    history.add("faults", **grown, **rest).acked(0, 2, 0).handed(0, 0, 2, 100)
    history.event("assigned", 0, 0)
    assert found(history, tmp_path / "never") == ({"unseen": (2, 0)}, "inconclusive")
    history.rows["end_offsets"].clear()
    history.event("assigned", 2_500, 2, partition=1)
    findings = judged(history, tmp_path / "there")
    assert (findings.verdict, findings.resized[0].groups[0].stored_too_early) == ("held", 2)


@pytest.mark.parametrize("block", [LATEST, SHARE])
def test_group_without_assignment_starts_at_its_first_event(block: dict[str, Any], tmp_path: Path) -> None:
    """Share groups have no assignments."""
    before = late(block).event("joined", 5_000, **NOBODYS)
    assert found(before, tmp_path / "before") == ({"unseen": (2, 2)}, "held")
    after = late(block).event("joined", 500, **NOBODYS)
    assert found(after, tmp_path / "after") == ({"unseen": (2, 0)}, "violated")
    assert found(late(block), tmp_path / "no sign") == ({"unseen": (2, 0)}, "inconclusive")


def test_share_group_starting_at_latest(tmp_path: Path) -> None:
    """Below what it was handed first it has nothing to do; above it, it has."""
    history = late(SHARE, (1_000, 2_000, 3_000)).event("joined", 1_500, **NOBODYS)
    history.shared("acquired", 1, 2_500, 1, partition=1).shared("accepted", 1, 2_501, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 1)}, "violated")


def test_acquired_record_sets_the_start_without_a_delivery(tmp_path: Path) -> None:
    """Also where its member was killed before it could tell what it had been given."""
    history = late(SHARE, (1_000, 2_000))
    history.shared("acquired", 1, 2_500, 5, partition=1).shared("accepted", 1, 2_501, partition=1)
    history.rows["deliveries"].clear()
    assert judged(history, tmp_path).anomaly("unseen")[0].permitted == 1


def test_by_duration_reset_counts_back_from_the_assignment(tmp_path: Path) -> None:
    """What was sent in the minute before it is for the group, whatever it was handed."""
    block = {"config": {"auto.offset.reset": "by_duration:PT1M"}}
    history = late(block, (1_000, 50_000)).event("assigned", 100_000, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 1)}, "violated")


def test_by_duration_reset_of_a_share_group(tmp_path: Path) -> None:
    """What was sent more than a minute before it began is not for it; what was sent later is."""
    history = late(MINUTE, (1_000, 50_000, 90_000)).event("joined", 100_000, **NOBODYS)
    history.shared("acquired", 2, 100_100, 1, partition=1).shared("accepted", 2, 100_101, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 1)}, "violated")
    history = late(MINUTE, (1_000, 2_000, 90_000)).event("joined", 100_000, **NOBODYS)
    history.shared("acquired", 2, 100_100, 1, partition=1).shared("accepted", 2, 100_101, partition=1)
    assert found(history, tmp_path / "older") == ({"unseen": (2, 2)}, "held")


@pytest.mark.parametrize(
    "text", ["by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1M", "earliest"]
)
def test_invalid_duration_means_earliest(text: str, tmp_path: Path) -> None:
    """Everything is for the group."""
    block = {"type": "share", "group-config": {"share.auto.offset.reset": text}}
    history = late(block).event("joined", 5_000_000, **NOBODYS)
    assert found(history, tmp_path) == ({"unseen": (2, 0)}, "violated")


def test_the_commit_of_an_initial_position_is_not_ahead(tmp_path: Path) -> None:
    """A client commits by itself where it begins; nothing was delivered, and nothing had to be."""
    history = late().event("assigned", 5_000, partition=1).event("committed", 6_000, 2, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 2)}, "held")


def test_commit_past_later_records_is_commit_ahead(tmp_path: Path) -> None:
    """Of the two the second was sent after the group began there: that was for it, and it passed it."""
    history = late().event("assigned", 1_500, partition=1).event("committed", 6_000, 2, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 1), "commit-ahead": (1, 0)}, "violated")


def test_commit_before_the_first_delivery_sets_the_start(tmp_path: Path) -> None:
    """It stood at 1, and was handed 2 first: 1 is unseen, 0 is not for it."""
    history = late(messages=(1_000, 2_000, 3_000)).event("committed", 1_500, 1, partition=1)
    assert found(history.handed(2, 0, 2, 4_000, partition=1), tmp_path) == ({"unseen": (2, 1)}, "violated")


def test_earliest_group_is_owed_everything(tmp_path: Path) -> None:
    """Whenever it came, and whatever it committed."""
    history = late({}).event("assigned", 5_000, partition=1).event("committed", 6_000, 2, partition=1)
    assert found(history, tmp_path) == ({"unseen": (2, 0), "commit-ahead": (1, 0)}, "violated")


def test_records_before_the_start_are_not_lag(tmp_path: Path) -> None:
    """It committed where it began in one partition, and nothing in the other."""
    history = late().acked(0, 2, 0).acked(0, 3, 1)
    history.event("assigned", 5_000, 1).event("assigned", 5_000, 2, partition=1)
    history.event("committed", 6_000, 1)
    assert judged(history, tmp_path).groups[0].lag.final == 1


@pytest.mark.parametrize(("offset", "unprocessed"), [(0, 1), (1, 0)])
def test_late_pipe_need_not_process_earlier_records(offset: int, unprocessed: int, tmp_path: Path) -> None:
    """It began with the second record, whose output is stored elsewhere."""
    history = late().event("assigned", 1_500, offset, partition=1).handed(1, 0, 1, 3_000, partition=1)
    history.topics.append({"name": "bills"})
    history.subscriptions = {"billing": ["orders"]}
    history.acked(0, 2, 0, topic="bills").output(0, 2, 1, partition=1)
    assert found(history, tmp_path)[0].get("unprocessed", (0, 0))[0] == unprocessed


def overtaken(reset: str = "latest") -> History:
    """Three messages were delivered; then the log removed ten while the group was away. Of the next ten it
    was delivered the last five, and committed.
    """
    history = late({"config": {"auto.offset.reset": reset}}, messages=()).event("assigned", 0, partition=1)
    for seq in range(20):
        where: dict[str, Any] = {"partition": 1, "attempt_ns": at(1_000 + seq), "done_ns": at(1_001 + seq)}
        (history.sent if seq < 10 else history.acked)(0, seq, seq, **where)
        if seq < 3 or seq >= 15:
            history.handed(seq, 0, seq, 2_000 + seq, partition=1)
    for partition, end in ((0, 0), (1, 20)):
        where = {"topic": "orders", "partition": partition, "start_offset": end // 2}
        history.add("end_offsets", **where, end_offset=end, drained_to=end)
    return history.event("committed", 3_000, 20, partition=1)


@pytest.mark.parametrize("reset", ["latest", "by_duration:PT1M"])
def test_group_may_begin_anew_where_its_position_was_removed(reset: str, tmp_path: Path) -> None:
    """Whether it did is not recorded: nothing is forbidden, and nothing is permitted."""
    findings = judged(overtaken(reset), tmp_path)
    (unseen,) = findings.anomaly("unseen")
    assert (unseen.count, unseen.permitted, unseen.forbidden) == (5, 0, 0)
    assert [findings.anomaly(name)[0].count for name in ("commit-ahead", "poll-skip")] == [0, 0]
    assert any("where its position had been removed" in reason for reason in findings.reasons)


def test_group_that_reads_from_the_start_is_owed_what_the_log_still_has(tmp_path: Path) -> None:
    """Kafka sets it back to where the log begins."""
    findings = judged(overtaken("earliest"), tmp_path)
    assert findings.anomaly("unseen")[0].forbidden == 5
    assert [findings.anomaly(name)[0].count for name in ("commit-ahead", "poll-skip")] == [1, 1]


def test_group_is_owed_what_follows_its_new_beginning(tmp_path: Path) -> None:
    """It was at offset 12 by its commit: two are unclear, three are not."""
    history = overtaken().event("committed", 2_500, 12, partition=1)
    (unseen,) = judged(history, tmp_path).anomaly("unseen")
    assert (unseen.count, unseen.forbidden) == (5, 3)
