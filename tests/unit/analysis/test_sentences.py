"""The sentence that tells a case, word for word: every anomaly, and every branch of its sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.analysis.questions import questions
from kaput.analysis.runs.columns import ABORTED, COMMITTED, UNKNOWN
from kaput.scenario.anomalies import ANOMALIES

STORIES = {name: story for question in questions() for name, story in question.stories.items()}
# A case in words: 22:13:20 is when the histories of tests begin.
CASE: dict[str, Any] = {
    **{"producer": 3, "seq": 1_234, "topic": "orders", "partition": 7, "offset": 5_678, "member": "m1"},
    **{"at_ns": at(1_000), "attempt_ns": at(2_000), "done_ns": at(3_000), "accepted_ns": at(4_000)},
    **{"times": 2_000, "limit": 1_500, "other_offset": 4_321, "other_producer": 4, "other_seq": 4_444},
    **{"transaction": 1_111, "first_here": 1_230, "to_ns": at(91_250), "flag": False, "holder": None},
    **{"ack_epoch": None, "later_epoch": None, "later_ns": None, "later_start": None, "cause": "unexplained"},
}
WHO, WHERE = "producer 3's message 1,234", "orders/7 offset 5,678"
ACKED = f"{WHO} was acknowledged at 22:13:23.000 as {WHERE}"
NOTHING = ", and the log has nothing there now"
RECEIVED = f"member m1 received {WHERE} at 22:13:21.000"


@pytest.mark.parametrize(
    ("name", "more", "sentence"),
    [
        ("duplicate", {}, f"{WHO} is stored 2,000 times, first as {WHERE}"),
        (
            "recovered",
            {"error": "_MSG_TIMED_OUT"},
            f"{WHO} was given up by its producer (_MSG_TIMED_OUT), yet is stored as {WHERE}",
        ),
        (
            "ghost",
            {"error": None},
            f"{WHO} was definitely refused (no error given), yet is stored as {WHERE}",
        ),
        ("unseen", {}, f"{WHO} is stored as {WHERE} and was never delivered to the group"),
        ("phantom", {}, f"{WHERE} holds {WHO}, which was never sent in this run"),
        ("inconsistent-offset", {}, f"{WHERE} was assigned to {WHO} and to producer 4's message 4,444"),
        (
            "corrupt",
            {},
            f"the record at {WHERE} is damaged: its checksum does not match, so its producer is unknown",
        ),
        ("reordered", {}, f"{WHO} is at {WHERE}, after message 4,444 of the same producer"),
        ("poll-skip", {}, f"{RECEIVED}, right after offset 4,321, past records stored between"),
        ("nonmonotonic-poll", {}, f"{RECEIVED}, after it had already received offset 4,321"),
        (
            "unassigned-delivery",
            {},
            f"member m1 received {WHERE} while the partition was not assigned to it",
        ),
        (
            "unassigned-delivery",
            {"member": "member-2.2"},
            f"member-2.2 received {WHERE} while the partition was not assigned to it",
        ),
        (
            "vanished",
            {},
            f"{WHO} was delivered as {WHERE} at 22:13:21.000, and is stored nowhere any more",
        ),
        ("redelivered", {}, f"{WHERE} was delivered 2,000 times"),
        (
            "redelivered",
            {"flag": True},
            f"{WHERE} was delivered 2,000 times, the last time after its offset had been committed",
        ),
        (
            "commit-ahead",
            {},
            f"member m1 committed {WHERE} at 22:13:21.000, "
            "when offset 4,321 had not been delivered to the group",
        ),
        (
            "commit-ahead",
            {"other_offset": None},
            f"member m1 committed {WHERE} at 22:13:21.000, "
            "when a record below had not been delivered to the group",
        ),
        ("double-accept", {}, f"{WHERE} was accepted 2,000 times, the first time confirmed at 22:13:24.000"),
        (
            "delivered-after-accept",
            {},
            f"{RECEIVED}, although its accept had been confirmed at 22:13:24.000",
        ),
        (
            "over-delivered",
            {},
            f"{WHERE} was delivered with delivery count 2,000, above the limit of 1,500",
        ),
        (
            "lost-release",
            {},
            f"{RECEIVED} with delivery count 2,000 (the limit is 1,500), neither accepted nor rejected it, "
            "and nobody received it again",
        ),
        ("processed-twice", {}, f"{WHO}, the input at {WHERE}, has 2,000 outputs"),
        ("unprocessed", {}, f"{WHO}, the input at {WHERE}, has no output"),
        (
            "aborted-read",
            {"state": ABORTED},
            f"{WHO} was delivered to the group ({WHERE}), though its transaction was aborted",
        ),
        (
            "aborted-read",
            {"state": UNKNOWN},
            f"{WHO} was delivered to the group ({WHERE}), though its transaction never committed",
        ),
        (
            "torn-transaction",
            {"state": ABORTED},
            "transaction 1,111 of producer 3 was aborted, yet its message 1,234 is stored",
        ),
        (
            "torn-transaction",
            {"state": COMMITTED},
            "message 1,230 of transaction 1,111 of producer 3 (committed) is stored, "
            "but message 1,234 is not",
        ),
        (
            "torn-transaction",
            {"state": UNKNOWN},
            "message 1,230 of transaction 1,111 of producer 3 (unknown) is stored, but message 1,234 is not",
        ),
        (
            "lost-commit",
            {},
            "transaction 1,111 of producer 3 was committed, but none of its messages "
            "(from 1,234 on) is visible",
        ),
        (
            "hanging-transaction",
            {},
            f"the last stable offset stalled at {WHERE} for 90.2 s from 22:13:21.000 on, behind {WHO}",
        ),
        (
            "hanging-transaction",
            {"producer": None},
            f"the last stable offset stalled at {WHERE} for 90.2 s from 22:13:21.000 on",
        ),
        ("lost", {}, f"{ACKED}{NOTHING}"),
        ("lost", {"ack_epoch": 4}, f"{ACKED} under epoch 4{NOTHING}"),
        (
            "lost",
            {"cause": "acks-0"},
            f"{WHO} was sent with acks=0 at 22:13:22.000 and never stored",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5},
            f"{ACKED}; epoch 5 began there{NOTHING}",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5, "later_ns": at(5_000), "later_start": 5_600},
            f"{ACKED}; epoch 5 began there 2,000 ms later at offset 5,600{NOTHING}",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5, "later_ns": at(1_500)},
            f"{ACKED}; epoch 5 began there 1,500 ms earlier{NOTHING}",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5, "later_ns": at(3_000)},
            f"{ACKED}; epoch 5 began there 0 ms later{NOTHING}",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5, "later_ns": at(5_000), "done_ns": None},
            f"{WHO} was acknowledged at an unknown time as {WHERE}; epoch 5 began there{NOTHING}",
        ),
        (
            "lost",
            {"cause": "unclean-election", "later_epoch": 5},
            f"{ACKED}; epoch 5 began there with a leader outside the ISR{NOTHING}",
        ),
        (
            "lost",
            {"cause": "leader-restarted", "later_epoch": 5},
            f"{ACKED}; epoch 5 began there under the same leader, which had come back without it{NOTHING}",
        ),
        (
            "lost",
            {"cause": "deposed-leader", "later_epoch": 5, "holder": {"producer": 9, "seq": 6_000}},
            f"{ACKED}; epoch 5 began there, and offset 5,678 now holds producer 9's message 6,000",
        ),
        (
            "lost",
            {"cause": "unexplained", "holder": {"producer": 3, "seq": 1_234}},
            f"{ACKED}, and is still there, but its transaction is not committed in the log",
        ),
    ],
)
def test_exact_story_of_each_anomaly(name: str, more: dict[str, Any], sentence: str) -> None:
    """Numbers with separators, times in UTC, and what is not known left out."""
    assert STORIES[name](CASE | more) == sentence


def test_every_anomaly_has_a_sentence() -> None:
    """Each that the analysis counts can be told."""
    assert set(STORIES) == {*ANOMALIES}


def test_a_sentence_names_the_partition_where_the_message_is(tmp_path: Path) -> None:
    """Not the one that its sender was told, if it was told any."""
    history = History(topics=[{"name": "orders", "partitions": 2}])
    history.sent(0, 0, None, "unknown", partition=None).stored(3, 0, 0, partition=1)
    history.sent(0, 1, None, "failed").stored(4, 0, 1, partition=1)
    findings = judged(history, tmp_path)
    for name, seq in (("recovered", 0), ("ghost", 1)):
        (example,) = findings.anomaly(name)[0].examples
        assert (example.seq, example.partition, example.offset) == (seq, 1, 3 + seq)
        assert example.story.endswith(f"yet is stored as orders/1 offset {3 + seq}")
