"""Runs that were ordered at a rate: seconds below it, and means around the faults; histories by hand."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check


def _judged(history: History, path: Path) -> Findings:
    return analyse(check(history.read_to_end().write(path)), InProcess())  # type: ignore[arg-type]


def _history(rate: float | str = 10, **expect: str) -> History:
    """Ten messages a second for 8 s, from 500 ms on; from 3 to 5 s nobody is acknowledged, then all at once,
    as broker 1 was killed. Each is delivered as it is acknowledged.
    """
    history = History(
        producers=[{"topic": "orders", "acks": "all", "rate": rate}], groups={"billing": True}, expect=expect
    )
    for seq in range(80):
        ms = 500 + 100 * seq
        done = 5000 if 3000 <= ms < 5000 else ms
        history.acked(0, seq, seq, attempt_ns=_ns(ms), done_ns=_ns(done)).handed(seq, 0, seq, done)
    history.faults = [{"at": "3s", "fault": "kill", "target": "broker 1"}]
    return history.fault(1, 3000, 5000)


def _ns(ms: int) -> int:
    return 1_700_000_000_000_000_000 + ms * 1_000_000


def test_seconds_below_the_ordered_rate(tmp_path: Path) -> None:
    """Two seconds in a row, of acknowledgements and of deliveries; what is not a whole second is left out."""
    rates = _judged(_history(), tmp_path).rates
    assert rates.ordered_per_s == 10
    assert [slump.model_dump() for slump in rates.slumps] == [
        {"what": what, "below_per_s": 8.0, "longest_s": 2, "total_s": 2} for what in ("acked", "delivered")
    ]


def test_means_before_during_and_after(tmp_path: Path) -> None:
    """All that was owed is acknowledged in the second after the heal."""
    means = _judged(_history(), tmp_path).rates.means
    assert [(m.when, m.seconds, m.sent_per_s, m.acked_per_s, m.delivered_per_s) for m in means] == [
        ("before", 2, 10, 10, 10),
        ("during", 2, 10, 0, 0),
        ("after", 3, 10, 50 / 3, 50 / 3),
    ]


def test_a_slump_that_is_longer_than_expected_is_a_violation(tmp_path: Path) -> None:
    """And one that is not is none."""
    assert _judged(_history(slump="<=2"), tmp_path / "held").verdict == "held"
    found = _judged(_history(slump="<=1"), tmp_path / "violated")
    assert found.verdict == "violated" and "expects slump <=1, and it is 2" in " ".join(found.reasons)


def test_as_fast_as_it_goes_is_no_order(tmp_path: Path) -> None:
    """Null is not zero."""
    rates = _judged(_history("max"), tmp_path).rates
    assert (rates.ordered_per_s, rates.slumps, rates.means) == (None, [], [])
