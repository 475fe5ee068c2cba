"""What members had, where they were asked to begin, and which topics they read: histories by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakes.histories import History, at
from fakes.judging import counts, findings_in, judged
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings

WHOLE = {"topic": None, "partition": None}


def stored(messages: int = 10) -> History:
    """So many messages in one partition, and a group that is drained."""
    history = History(groups={"billing": True})
    for seq in range(messages):
        history.acked(0, seq, seq)
    return history


def polled(history: History, *polls: tuple[float, int]) -> History:
    """m1 is handed these offsets at these times."""
    for ms, offset in polls:
        history.handed(offset, 0, offset, ms)
    return history


def test_assignment_of_an_owned_partition_is_no_change(tmp_path: Path) -> None:
    """Reported between two polls, it hides neither that one jumped nor that the next went back."""
    history = stored(4).event("assigned", 10, 0)
    polled(history, (20, 0), (30, 2), (40, 1), (50, 3)).event("assigned", 25).event("assigned", 35)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"poll-skip": 2, "nonmonotonic-poll": 1}
    assert findings.verdict == "violated"


@pytest.mark.parametrize("kind", ["revoked", "lost", "left", "killed"])
def test_reassignment_after_revocation_is_a_change(kind: str, tmp_path: Path) -> None:
    """The member goes on where the group is, which had committed nothing."""
    history = polled(stored(2).event("assigned", 10, 0), (20, 0), (40, 0), (41, 1))
    history.event(kind, 30, **(WHOLE if kind in ("left", "killed") else {})).event("assigned", 31, 0)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"redelivered": 1}
    assert findings.verdict == "held", findings.reasons


def violations(findings: Findings) -> int:
    """Records redelivered that should not have been."""
    (redelivered,) = (a for a in findings.anomalies if a.name == "redelivered")
    return redelivered.count - redelivered.permitted


@pytest.mark.parametrize("seek_ms", [None, 10, 25, 29.5])
def test_what_a_member_reads_again_by_itself_breaks_no_promise(seek_ms: float | None, tmp_path: Path) -> None:
    """Behind the commit at which it began, and without one of its own: if it went there by itself since."""
    history = polled(stored(4), (5, 0), (6, 1)).event("committed", 7, 2)
    history.event("assigned", 20, 2, member="m2").event("assigned", 10, 0)
    for offset in (0, 1):
        history.handed(offset, 0, offset, 30, member="m2")
    if seek_ms is not None:
        history.event("seek", seek_ms, 0, member="m2")
    findings = judged(history, tmp_path)
    assert violations(findings) == (0 if seek_ms in (25, 29.5) else 2)


def test_assignment_after_a_seek_begins_at_the_commit_again(tmp_path: Path) -> None:
    history = polled(stored(2).event("assigned", 1, 0), (5, 0), (6, 1)).event("seek", 7, 0)
    history.event("committed", 8, 2).event("revoked", 9).event("assigned", 10, 2)
    findings = judged(polled(history, (20, 1)), tmp_path)
    assert violations(findings) == 1


@pytest.mark.parametrize("kind", ["left", "killed"])
def test_restarted_member_resumes_at_the_committed_offset(kind: str, tmp_path: Path) -> None:
    """No assignment is on record; it is another process, which begins where the group is."""
    history = polled(stored(2), (20, 0), (40, 0), (41, 1)).event(kind, 30, **WHOLE)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"redelivered": 1}
    assert findings.verdict == "held", findings.reasons


@pytest.mark.parametrize("kind", ["revoked", "lost", "left", "killed"])
@pytest.mark.parametrize("polled_ms", [20, 20.2])
def test_poll_at_the_instant_of_revocation_is_owned(kind: str, polled_ms: float, tmp_path: Path) -> None:
    """Many clients tell whole ms: which came first is not known. A little later it is."""
    whole = WHOLE if kind in ("left", "killed") else {}
    history = stored(1).event("assigned", 10, 0).event(kind, 20.2, **whole)
    assert counts(judged(polled(history, (polled_ms, 0)), tmp_path / "at once")) == {}
    history = stored(1).event("assigned", 10, 0).event(kind, 20.2, **whole)
    late = judged(polled(history, (20.3, 0)), tmp_path / "late")
    assert counts(late) == {"unassigned-delivery": 1}


@pytest.mark.parametrize("assigned_ms", [20, 20.4, 30])
def test_change_at_the_instant_of_a_poll_explains_a_step_back(assigned_ms: float, tmp_path: Path) -> None:
    """Back to the first record: either poll may have come before or after the assignment."""
    history = polled(stored(2), (20, 1), (30, 0)).event("assigned", assigned_ms, 0)
    assert "nonmonotonic-poll" not in counts(judged(history, tmp_path))


@pytest.mark.parametrize("assigned_ms", [19, 30.4])
def test_change_before_or_after_both_polls_does_not_explain(assigned_ms: float, tmp_path: Path) -> None:
    """The member went back all the same."""
    history = polled(stored(2), (20, 1), (30, 0)).event("assigned", assigned_ms, 0)
    assert counts(judged(history, tmp_path))["nonmonotonic-poll"] == 1


def retried(*commits: tuple[float, int], assigned_ms: float = 50) -> History:
    """m1 reads ten records; after these commits m2 is assigned the partition, and begins at offset 5."""
    history = stored().event("assigned", 10, 0)
    polled(history, *((20 + offset, offset) for offset in range(10)))
    for ms, offset in commits:
        history.event("committed", ms, offset)
    history.event("revoked", 49).event("assigned", assigned_ms, 5, member="m2")
    for offset in range(5, 10):
        history.handed(offset, 0, offset, 60 + offset, member="m2")
    return history


def test_last_confirmed_commit_decides_redelivery(tmp_path: Path) -> None:
    """10, then a retried 5: the group is at 5, and what follows is within the uncommitted window."""
    findings = judged(retried((40, 10), (41, 5)), tmp_path / "back")
    assert counts(findings) == {"redelivered": 5} and findings.verdict == "held", findings.reasons
    findings = judged(retried((40, 5), (41, 10)), tmp_path / "forth")
    assert counts(findings) == {"redelivered": 5} and findings.verdict == "violated"
    assert findings.anomaly("redelivered")[0].permitted == 0


@pytest.mark.parametrize("commits", [((40, 10), (50, 5)), ((40, 5), (50, 10)), ((40, 10), (40, 5))])
def test_commit_that_may_be_the_last_is_assumed_last(
    commits: tuple[tuple[float, int], ...], tmp_path: Path
) -> None:
    """At the moment of the assignment, or at that of another commit."""
    findings = judged(retried(*commits), tmp_path)
    assert findings.verdict == "held", findings.reasons


def two_topics(**block: object) -> History:
    """A message in orders, which the group is handed, and one in bills, which it is not."""
    topics = [{"name": "orders"}, {"name": "bills"}]
    history = History(topics=topics, groups={"billing": True}, blocks={"billing": dict(block)})
    history.acked(0, 0, 0).acked(0, 1, 0, topic="bills")
    return history.handed(0, 0, 0, 10)


@pytest.mark.parametrize(
    ("pattern", "block", "unseen"),
    [
        ("^ord.*", {}, 0),
        ("^.*", {}, 1),
        ("^(orders|bills)$", {"type": "consumer"}, 1),
        ("^b", {}, 1),  # librdkafka wants a name to begin so
        ("^b", {"type": "consumer"}, 0),  # brokers want all of it
        ("b.*", {}, 0),  # a name, and nobody's
    ],
)
def test_subscription_pattern_covers_matching_topics(
    pattern: str, block: dict[str, object], unseen: int, tmp_path: Path
) -> None:
    """And the group is judged on each of them."""
    history = two_topics(**block)
    history.subscriptions = {"billing": [pattern]}
    assert judged(history, tmp_path).anomaly("unseen")[0].count == unseen


def test_invalid_subscription_pattern_is_an_error(tmp_path: Path) -> None:
    """With the group's name, and what is wrong."""
    history = two_topics()
    history.subscriptions = {"billing": ["^ord("]}
    with pytest.raises(EvidenceError, match=r"group billing: '\^ord\(' is not a pattern"):
        judged(history, tmp_path)


def unknown(history: History, path: Path) -> Findings:
    """The findings of a run whose scenario does not have the group."""
    folder = history.read_to_end().write(path)
    scenario = history.scenario()
    scenario["workload"]["groups"] = []
    folder.scenario_path.write_text(yaml.safe_dump(scenario))
    return findings_in(folder)


@pytest.mark.parametrize("topic", ["orders", "bills"])
def test_topics_of_a_group_come_from_its_assignments(topic: str, tmp_path: Path) -> None:
    """Of bills it was handed nothing."""
    history = two_topics().event("assigned", 5, 0).event("assigned", 5, 0, topic=topic)
    assert unknown(history, tmp_path).anomaly("unseen")[0].count == (topic == "bills")


def test_topics_of_a_group_come_from_its_deliveries(tmp_path: Path) -> None:
    """Nothing tells of another topic; where nothing tells of any, it may be any."""
    assert unknown(two_topics(), tmp_path / "handed").anomaly("unseen")[0].count == 0
    history = two_topics()
    history.rows["deliveries"].clear()
    assert unknown(history, tmp_path / "nothing").anomaly("unseen")[0].count == 2


def test_output_topic_of_a_pipe_is_not_its_input(tmp_path: Path) -> None:
    """Bills has what was made of the record in orders."""
    findings = unknown(two_topics().output(0, 1, 0), tmp_path)
    assert {name: n for name, n in counts(findings).items() if name != "recovered"} == {}


@pytest.mark.parametrize(
    ("minutes", "away_min", "end", "permitted"),
    [
        (1, 1.1, "left", True),
        (1, 0.9, "left", False),  # they have not expired yet
        (1, 1.1, "killed", False),  # a member until its session has timed out
        (1, 1.8, "killed", True),
        (None, 1.1, "left", False),  # they are kept for a week
    ],
)
def test_read_again_after_committed_offsets_expired_is_permitted(
    tmp_path: Path, minutes: int | None, away_min: float, end: str, permitted: bool
) -> None:
    """The group had no member for longer than its brokers keep offsets, and reads from the start again."""
    history = stored(2)
    history.cluster = {"config": {} if minutes is None else {"offsets.retention.minutes": minutes}}
    history.event("joined", 5, **WHOLE).event("assigned", 5, 0)
    polled(history, (10, 0), (11, 1)).event("committed", 20, 2).event("revoked", 29)
    history.event(end, 30, **WHOLE)
    back = 30 + away_min * 60_000
    history.event("joined", back, member="m2", **WHOLE).event("assigned", back, member="m2")
    for seq in range(2):
        history.handed(seq, 0, seq, back + 10 + seq, member="m2")
    findings = judged(history.event("committed", back + 20, 2, member="m2"), tmp_path)
    assert [(a.count, a.permitted) for a in findings.anomaly("redelivered")] == [(2, 2 if permitted else 0)]
    assert findings.verdict == ("held" if permitted else "violated"), findings.reasons


def ruled(findings: Findings, name: str) -> tuple[int, int]:
    """How many there are, and how many of them are permitted."""
    (anomaly,) = (a for a in findings.anomalies if a.name == name)
    return anomaly.count, anomaly.permitted


def skipping(first: int, until: int, **more: object) -> History:
    """Of ten messages, two are read; the member goes to 8, and says that it passed over these."""
    history = polled(stored().event("assigned", 1, 0), (5, 0), (6, 1)).event("committed", 7, 2)
    history.event("skipped", 8, first, until=until, **more).event("committed", 9, 8).event("seek", 10, 8)
    return polled(history, (20, 8), (21, 9))


def test_what_a_group_was_moved_past_is_unseen_as_permitted(tmp_path: Path) -> None:
    """Nor is the commit of the new position ahead."""
    findings = judged(skipping(2, 8), tmp_path)
    assert ruled(findings, "unseen") == (6, 6)
    assert counts(findings) == {"unseen": 6}
    assert findings.verdict == "held"
    assert any("moved past them on purpose" in reason for reason in findings.reasons)


@pytest.mark.parametrize(("first", "until", "excused"), [(4, 8, 4), (2, 6, 4), (0, 4, 2)])
def test_a_move_excuses_only_what_it_passed_over(
    first: int, until: int, excused: int, tmp_path: Path
) -> None:
    findings = judged(skipping(first, until), tmp_path)
    assert ruled(findings, "unseen") == (6, excused)
    assert findings.verdict == "violated"


@pytest.mark.parametrize(("back_to", "excused"), [(2, 0), (4, 2), (8, 6)])
def test_what_a_group_went_back_to_is_not_passed_over(back_to: int, excused: int, tmp_path: Path) -> None:
    """It is moved on to 8, back again, and yet handed only what is at 8 and 9."""
    history = polled(stored().event("assigned", 1, 0), (5, 0), (6, 1)).event("committed", 7, 2)
    history.event("skipped", 8, 2, until=8).event("committed", 9, 8).event("seek", 10, 8)
    history.event("committed", 12, back_to).event("seek", 13, back_to)
    findings = judged(polled(history, (20, 8), (21, 9)).event("committed", 22, 10), tmp_path)
    assert ruled(findings, "unseen") == (6, excused)
    assert (findings.verdict == "held") == (excused == 6)
    assert ("commit-ahead" in counts(findings)) == (excused < 6)


@pytest.mark.parametrize("back_to", [2, 4, 8])
def test_commit_before_a_group_went_back_was_not_ahead(back_to: int, tmp_path: Path) -> None:
    """Until then it was past these on purpose; now it is handed them all."""
    history = skipping(2, 8).event("seek", 30, back_to)
    polled(history, *((31 + offset, offset) for offset in range(back_to, 10))).event("committed", 50, 10)
    findings = judged(history, tmp_path)
    assert ruled(findings, "unseen") == (back_to - 2, back_to - 2)
    assert "commit-ahead" not in counts(findings)
    assert findings.verdict == "held"


@pytest.mark.parametrize(("stopped", "excused"), [(False, 6), (True, 0)])
def test_commit_that_was_on_its_way_goes_back_nowhere(stopped: bool, excused: int, tmp_path: Path) -> None:
    """It is confirmed after the member was moved on; after a member has left, it is a reset."""
    history = polled(stored().event("assigned", 1, 0), (5, 0), (6, 1))
    history.event("skipped", 8, 2, until=8)
    if stopped:
        history.event("left", 9, **WHOLE)
    history.event("committed", 10, 2).event("committed", 11, 8)
    findings = judged(polled(history, (20, 8), (21, 9)), tmp_path)
    assert ruled(findings, "unseen") == (6, excused)


def test_what_was_passed_over_of_a_deleted_topic_is_owed_of_the_new_one(tmp_path: Path) -> None:
    """Messages 4 to 7 are at offsets 0 to 3 of the new topic, and the last two of them are never read."""
    history = History(groups={"billing": True})
    for seq in range(8):
        history.sent(0, seq, seq % 4, attempt_ns=at(seq if seq < 4 else 30 + seq))
    for seq in range(4, 8):
        history.stored(seq - 4, 0, seq)
    polled(history.event("assigned", 1, 0), (5, 0), (6, 1)).event("committed", 7, 2)
    history.event("skipped", 8, 2, until=4).event("committed", 9, 4).event("seek", 10, 4)
    history.deleted("orders", 30, fault="recreate")
    for offset in range(2):
        history.handed(offset, 0, 4 + offset, 50 + offset)
    assert ruled(judged(history, tmp_path), "unseen") == (2, 0)


@pytest.mark.parametrize("other", [{"topic": "stock"}, {"partition": 1}])
def test_a_move_elsewhere_excuses_nothing(other: dict[str, object], tmp_path: Path) -> None:
    findings = judged(skipping(2, 8, **other), tmp_path)
    assert ruled(findings, "unseen") == (6, 0)
    assert counts(findings)["commit-ahead"] == 1
