"""Records in stories of groups, in histories by hand: other words, or another number, are called false."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.histories import History, at
from second_opinion.judging import findings_of
from second_opinion.opinion import FALSE, Examiner
from second_opinion.raw import Row


def _history(isolation: str = "read_committed") -> History:
    """A message every 100 ms, and from 2 s to 8 s nothing is delivered."""
    history = History(
        producers=[{"topic": "orders", "acks": "all"}] * 2,
        topics=[{"name": "orders", "partitions": 2}],
        groups={"billing": True},
    )
    history.led(1, 0, -100, [1, 3]).led(1, 0, -100, [1, 3], partition=1)
    history.blocks["billing"] = {"config": {"isolation.level": isolation}}
    for seq in range(100):
        ms, offset = 100 * seq, seq + (seq >= 20)
        shown = 8_000 if 2_000 <= ms < 8_000 else ms + 6
        history.acked(1, seq, offset, attempt_ns=at(ms), done_ns=at(ms + 5)).handed(offset, 1, seq, shown)
    return history.acked(0, 10, 20, attempt_ns=at(1_950), done_ns=at(1_990)).handed(20, 0, 10, 8_000)


def _with_a_transaction(outcome: str) -> History:
    """Until 7,990 ms, of producer 0; its coordinator was down for 5 s, and orders/1 slow."""
    history = _history().acked(0, 11, 0, partition=1, attempt_ns=at(1_960), done_ns=at(7_500))
    history.handed(0, 0, 11, 8_000, partition=1)
    target = "transaction-coordinator-of producer 0"
    history.fault(2, 2_500, 7_500, target=target, fault="pause", id="1-pause")
    if outcome == "unknown":
        history.stable(20, 70, 6_500).stable(20, 75, 7_700).stable(70, 79, 7_900)
    return history.add(
        "transactions", transactional_id="t0", producer=0, transaction=7, first_seq=10, last_seq=11,
        outcome=outcome, begin_ns=at(1_950), end_ns=None if outcome == "unknown" else at(7_990), error=None,
    )  # fmt: skip


def _read_again() -> History:
    """From 2.5 s to 7.9 s the first ones."""
    history = _history("read_uncommitted")
    for seq in range(7):
        history.handed(seq, 1, seq, 2_500 + 900 * seq)
    return history


def _false(history: History, path: Path, change: Callable[[Row], None]) -> set[str]:
    """What is called false of the group's waits and their copies after a change to each."""
    folder = copy.deepcopy(history).read_to_end().write(path).path
    found = findings_of(folder)
    rows = [*found["standstills"], *(c for c in found["claims"] if c["kind"] == "silence")]
    for wait in (wait for row in rows if row["group"] == "billing" for wait in row["waited_for"]):
        change(wait)
    examiner = Examiner(folder)
    return {one.claim for one in examiner.opinions(found) if one.verdict == FALSE}


def _instead(words: str, others: str) -> Callable[[Row], None]:
    def change(wait: Row) -> None:
        wait["record"] = wait["record"].replace(words, others)

    return change


def _end_later(wait: Row) -> None:
    wait["to_ns"] += 500 * 1_000_000


def _of_another_condition(wait: Row) -> None:
    wait["condition"] = {"reread": "transaction", "transaction": "reread"}.get(wait["condition"], "client")


COMMITTED, UNKNOWN, AGAIN = _with_a_transaction("committed"), _with_a_transaction("unknown"), _read_again()


@pytest.mark.parametrize("history", [COMMITTED, UNKNOWN, AGAIN], ids=["committed", "unknown", "again"])
def test_the_right_ones_are_not(history: History, tmp_path: Path) -> None:
    def change(wait: Row) -> None:
        pass

    assert _false(history, tmp_path, change) == set()


@pytest.mark.parametrize(
    ("history", "change"),
    [
        (COMMITTED, _instead("was committed", "was aborted")),
        (COMMITTED, _instead("transaction 7", "transaction 8")),
        (COMMITTED, _instead("0.5 s after", "0.7 s after")),
        (COMMITTED, _instead("on orders/1", "on orders/0")),
        (COMMITTED, _instead("was down for 5.0 s", "was down for 4.0 s")),
        (COMMITTED, _of_another_condition),
        (COMMITTED, _end_later),
        (UNKNOWN, _instead("went past transaction 7", "went past transaction 8")),
        (UNKNOWN, _instead("of orders/0 went", "of orders/1 went")),
        (UNKNOWN, _end_later),
        (AGAIN, _instead("orders/0 again", "orders/1 again")),
        (AGAIN, _of_another_condition),
        (AGAIN, _end_later),
    ],
)
def test_a_wrong_record_or_time_is_called_false(
    history: History, change: Callable[[Row], None], tmp_path: Path
) -> None:
    assert _false(history, tmp_path, change)


@pytest.mark.parametrize("member", ["pod.m1.2", "pod.m2"], ids=["back", "elsewhere"])
def test_whether_partitions_went_back_to_a_static_member_is_examined(member: str, tmp_path: Path) -> None:
    """Also where a trigger does not have it."""
    none = {"topic": None, "partition": None}
    history = History(topics=[{"name": "orders", "partitions": 1}], groups={"billing": True})
    history.blocks["billing"] = {"static": True}
    history.event("joined", 0, member="pod.m1", **none).event("assigned", 1, 0, member="pod.m1")
    history.acked(0, 0, 0).handed(0, 0, 0, 100, member="pod.m1").event("left", 5_000, member="pod.m1", **none)
    history.event("joined", 7_000, member=member, **none).event("assigned", 7_001, 0, member=member)
    history.acked(0, 1, 1).handed(1, 0, 1, 7_100, member=member)
    folder = history.read_to_end().write(tmp_path).path
    found, examiner = findings_of(folder), Examiner(folder)
    assert [one for one in examiner.opinions(found) if one.verdict == FALSE] == []
    trigger, words = found["rebalances"][1]["trigger"], " (static: each partition went back to the member "
    assert (words in trigger) == (member == "pod.m1.2")
    wrong = trigger.partition(words)[0] if words in trigger else f"{trigger}{words}that had it)"
    found["rebalances"][1]["trigger"] = wrong
    assert any(one.verdict == FALSE for one in examiner.opinions(found))


def test_cpu_time_and_versions_of_requests_are_examined(tmp_path: Path) -> None:
    """Of two processes, one of which began meanwhile; another figure, or version, is called false."""
    history = History(topics=[{"name": "orders", "partitions": 1}], groups={"billing": True})
    for seq in range(10):
        history.acked(0, seq, seq, attempt_ns=at(100 * seq), done_ns=at(100 * seq + 100))
    for pid, ms, value in (("1", -500, 3.0), ("1", 500, 4.0), ("1", 1_500, 5.0), ("2", 400, 0.5)):
        labels = [("node", "1"), ("pid", pid)]
        history.add("samples", name="cpu_s", labels=labels, at_ns=at(ms), value=value, source="lab")
    for client in ("kaput-producer-0", "kaput-billing-member-2", "broker-1-fetcher-0"):
        history.add("requests", client_id=client, api="Metadata", version=12, broker=1, at_ns=at(0))
    folder = history.read_to_end().write(tmp_path).path
    found, examiner = findings_of(folder), Examiner(folder)
    assert [one for one in examiner.opinions(found) if one.verdict == FALSE] == []
    assert (found["rates"]["cpu_us_per_message"], found["rates"]["cpu_processes_begun"]) == (200_000, 1)
    for change in (
        lambda wrong: wrong["rates"].update(cpu_us_per_message=190_000),
        lambda wrong: wrong["rates"].update(cpu_processes_begun=0),
        lambda wrong: wrong["requests"][0].update(requests={"Metadata": [11]}),
        lambda wrong: wrong["requests"].pop(),
    ):
        wrong = copy.deepcopy(found)
        change(wrong)
        assert any(one.verdict == FALSE for one in examiner.opinions(wrong))
