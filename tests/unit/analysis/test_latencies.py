"""Latencies before, during and after the faults; a history by hand."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History, at
from fakes.judging import judged

# attempt, acknowledgement and first delivery of each message, ms since the begin; the fault: 1,000 to 2,000.
TIMES = [
    (0, 4, 9),  # before
    (500, 999, 1_001),  # acknowledged before the fault, delivered during it
    (900, 1_000, 1_100),  # the fault's own moment is during it
    (1_500, 3_000, 3_050),  # sent during the fault, whenever it was acknowledged
    (1_999, 2_000, 2_002),
    (2_000, 2_007, 2_027),  # after
]


def _history(healed_ms: int | None = 2_000, fault: str = "kill") -> History:
    history = History(groups={"billing": True}).led(1, 0, -100, [1, 2, 3])
    for seq, (attempt, done, polled) in enumerate(TIMES):
        history.acked(0, seq, seq, attempt_ns=at(attempt), done_ns=at(done)).handed(seq, 0, seq, polled)
    return history.fault(1, 1_000, healed_ms, fault=fault)


def test_each_message_counts_before_during_or_after_the_faults(tmp_path: Path) -> None:
    """Before: done before the first effect. After: attempted after the last heal. During: all others."""
    found = judged(_history(), tmp_path).latency_ms
    by_when = {one.when: one for one in found.around_faults}
    assert list(by_when) == ["before", "during", "after"]
    assert {when: one.ack.max for when, one in by_when.items()} == {
        "before": 499,
        "during": 1_500,
        "after": 7,
    }
    assert {when: one.end_to_end.max for when, one in by_when.items()} == {
        "before": 9, "during": 1_550, "after": 27,
    }  # fmt: skip
    assert by_when["before"].ack.p50 == (4 + 499) / 2
    assert by_when["during"].ack.p50 == 100 and found.ack.max == 1_500


def test_unhealed_fault_has_no_after_phase(tmp_path: Path) -> None:
    """What comes after its effect is during it."""
    before, during, after = judged(_history(healed_ms=None), tmp_path).latency_ms.around_faults
    assert (before.ack.max, during.ack.max, after.ack.max) == (499, 1_500, None)


def test_run_without_faults_has_one_phase(tmp_path: Path) -> None:
    found = judged(_history(fault="noop"), tmp_path).latency_ms
    assert found.around_faults == [] and found.ack.max == 1_500
