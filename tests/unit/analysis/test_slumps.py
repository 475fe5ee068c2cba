"""Runs that were ordered at a rate: seconds below it, and means around the faults; histories by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.analysis.facts import inputs
from kaput.analysis.questions import rates
from kaput.analysis.questions.rates import ordered_per_s, seconds
from kaput.evidence.reading import check


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
    rates = judged(_history(), tmp_path).rates
    assert rates.ordered_per_s == 10
    assert [slump.model_dump() for slump in rates.slumps] == [
        {"what": what, "below_per_s": 8.0, "longest_s": 2, "total_s": 2} for what in ("acked", "delivered")
    ]


def test_means_before_during_and_after(tmp_path: Path) -> None:
    """All that was owed is acknowledged in the second after the heal."""
    means = judged(_history(), tmp_path).rates.means
    assert [(m.when, m.seconds, m.sent_per_s, m.acked_per_s, m.delivered_per_s) for m in means] == [
        ("before", 2, 10, 10, 10),
        ("during", 2, 10, 0, 0),
        ("after", 3, 10, 50 / 3, 50 / 3),
    ]


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, 20.0),
        ({"starts": "1500ms"}, 14.0),  # from 2.0 s on: one of the 2.5 seconds from 0.5 to 3.0 s
        ({"starts": "1500ms", "duration": "500ms"}, 14.0),  # its last attempt is later than that
        ({"duration": "900ms", "sent": 9}, 13.6),  # until 1.4 s: 0.9 of the 2.5 seconds
    ],
)
def test_load_is_what_was_asked_of_the_producers_that_were_to_send(
    more: dict[str, Any], asked: float, tmp_path: Path
) -> None:
    """A second producer starts later, or has sent everything before the fault."""
    sent = more.pop("sent", 80)
    history = _history()
    spec = {"topic": "orders", "acks": "all", "rate": 10, "messages": 80} | more
    if "duration" in more:
        del spec["messages"]
    history.producers.append(spec)
    late = 1_500 if "starts" in more else 0
    for seq in range(sent):
        ms = 500 + late + 100 * seq
        history.acked(1, seq, 80 + seq, attempt_ns=_ns(ms), done_ns=_ns(ms))
    (load,) = [one for one in judged(history, tmp_path).claims if one.kind == "load"]
    assert round(load.figures["asked_per_s"], 6) == asked


def test_load_before_a_fault_ends_when_that_is_injected(tmp_path: Path) -> None:
    """A disk fills for a second before it is known to be full: the load is not what fell short then, and
    means before the faults have nothing of it.
    """
    history = _history()
    (fault,) = history.rows["faults"]
    fault["injected_ns"] = fault["effective_ns"] - 1_000_000_000
    findings = judged(history, tmp_path)
    (load,) = [one for one in findings.claims if one.kind == "load"]
    assert (load.from_ns, load.to_ns) == (_ns(500), _ns(2_000))
    assert [(one.when, one.seconds) for one in findings.rates.means[:2]] == [("before", 1), ("during", 3)]


def test_load_in_bursts_counts_from_the_first_attempt(tmp_path: Path) -> None:
    """Twenty messages every 200 ms. One transaction more or less is no shortfall, as `burst` says."""
    spec = {"topic": "orders", "acks": "all", "rate": 100, "messages": 400, "transactions": {"size": 20}}
    history = History(producers=[spec])
    for seq in range(400):
        ms = 950 + 200 * (seq // 20)
        history.acked(0, seq, seq, attempt_ns=_ns(ms), done_ns=_ns(ms + 1))
    history.fault(1, 2_750, 9_000)
    (load,) = [one for one in judged(history, tmp_path).claims if one.kind == "load"]
    assert (load.from_ns, load.to_ns) == (_ns(950), _ns(2_700))
    reached = 9 * 20 / 1.75
    figures = {"asked_per_s": 100.0, "sent_per_s": reached, "reached_per_s": reached, "burst": 20}
    assert load.figures == pytest.approx(figures)


def test_load_without_a_fault_includes_the_step_of_the_last_attempt(tmp_path: Path) -> None:
    """It is attempted 8.4 s after the start: an acknowledgement 50 ms later counts, one 250 ms later not."""
    history = _history()
    history.faults, history.rows["faults"] = [], []
    for row, late in zip(history.rows["sends"][-2:], (350, 50), strict=True):
        row["done_ns"] = row["attempt_ns"] + _ns(late) - _ns(0)
    (load,) = [one for one in judged(history, tmp_path).claims if one.kind == "load"]
    assert (load.to_ns, round(load.figures["reached_per_s"] * 7.9, 6)) == (_ns(8_400), 79)


def test_less_than_a_second_shows_no_load(tmp_path: Path) -> None:
    """A fault 900 ms after the first attempt: what is under way weighs too much."""
    history = _history()
    history.rows["faults"][0] |= {"injected_ns": at(1_400)}
    assert "load" not in {claim.kind for claim in judged(history, tmp_path).claims}


def test_a_slump_that_is_longer_than_expected_is_a_violation(tmp_path: Path) -> None:
    """And one that is not is none."""
    assert judged(_history(slump="<=2"), tmp_path / "held").verdict == "held"
    found = judged(_history(slump="<=1"), tmp_path / "violated")
    assert found.verdict == "violated" and "slump: <=1 was not met (2 s)" in " ".join(found.reasons)


def test_max_rate_has_no_target(tmp_path: Path) -> None:
    rates = judged(_history("max"), tmp_path).rates
    assert (rates.ordered_per_s, rates.slumps, rates.means) == (None, [], [])


def test_cpu_time_per_message_across_broker_restarts(tmp_path: Path) -> None:
    """Between the first attempt (500 ms) and the last acknowledgement (8.4 s): broker 1 used 2 s, then was
    killed and used 1 s more in a new process; broker 2 used 5 s. What the load did not use is left out.
    """
    history = _history()
    for ms, node, pid, value in (
        *((0, 1, 11, 3.0), (3000, 1, 11, 5.0), (6000, 1, 12, 1.0), (8400, 1, 12, 1.0), (9000, 1, 12, 4.0)),
        *((0, 2, 21, 10.0), (8000, 2, 21, 14.0), (8800, 2, 21, 16.0)),  # 15 in the middle of the two
    ):
        labels = [("node", str(node)), ("pid", str(pid))]
        history.add("samples", at_ns=at(ms), source="kaput", name="cpu_s", labels=labels, value=value)
    rates = judged(history, tmp_path).rates
    assert (rates.cpu_us_per_message, rates.cpu_processes_begun) == (pytest.approx(8e6 / 80), 1)
    assert judged(_history(), tmp_path / "without").rates.cpu_us_per_message is None


class _Few(dict[int, int]):
    """Counts that are looked at no more often than there is any reason to."""

    looks = 0

    def _look(self) -> None:
        self.looks += 1
        assert self.looks < 1_000, "each second of a gap is looked at"

    def get(self, second: int, default: int = 0) -> int:  # type: ignore[override]
        self._look()
        return super().get(second, default)

    def __getitem__(self, second: int) -> int:
        self._look()
        return super().__getitem__(second)


def test_timestamp_decades_off_is_cheap(tmp_path: Path) -> None:
    """A message attempted in 1970 makes a slump of half a century, counted by what happened in it."""
    given = inputs.read(check(_history().read_to_end().write(tmp_path)))
    load = rates.seconds(0, _ns(8400))
    rated = _Few({0: 10, **{1_700_000_000 + second: 10 for second in range(3)}})
    counts = {what: _Few(rated) for what in ("attempted", "acked", "delivered")}
    acked, _ = rates.slumps(given, counts, load)
    assert (acked.longest_s, acked.total_s) == (1_699_999_999, 1_699_999_999 + 5)
    assert [(mean.when, mean.seconds, mean.acked_per_s) for mean in rates.means(given, counts, load)] == [
        ("before", 1_700_000_003, 40 / 1_700_000_003),
        ("during", 2, 0),
        ("after", 3, 0),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_slumps_equal_a_second_by_second_count(seed: int, tmp_path: Path) -> None:
    """Whatever happened in which second, in any order, also outside the time that counts."""
    random = Random(seed)
    given = inputs.read(check(_history().read_to_end().write(tmp_path)))
    counts = {s: random.choice((0, 7, 8, 9)) for s in random.sample(range(30), k=random.randint(0, 30))}
    first, last = sorted((random.randint(0, 29), random.randint(0, 29)))
    load = rates.seconds(first * 10**9, last * 10**9)
    below = "".join("x" if counts.get(second, 0) < 8 else " " for second in range(first, last))
    wanted = (max(map(len, below.split()), default=0), below.count("x"))
    assert [(one.longest_s, one.total_s) for one in rates.slumps(given, {"acked": counts}, load)[:1]] == (
        [wanted] if below else []
    )


@pytest.mark.parametrize(
    ("ordered", "told"), [([5, 2.5], 7.5), ([5, "max"], None), (["max"], None), ([], None), ([0.5], 0.5)]
)
def test_total_target_rate_of_all_producers(ordered: list[Any], told: float | None) -> None:
    """Null where one of them sends as fast as it can or starts later, and without a scenario."""
    specs = [SimpleNamespace(rate=rate, starts=None) for rate in ordered]
    scenario = SimpleNamespace(producer_specs=lambda: specs, workload=SimpleNamespace(groups=[], clients=[]))
    with patch("kaput.analysis.questions.rates.pipes", return_value=[]):
        assert ordered_per_s(SimpleNamespace(scenario=scenario)) == told  # type: ignore[arg-type]
    with patch("kaput.analysis.questions.rates.pipes", return_value=["pipe"]):
        assert ordered_per_s(SimpleNamespace(scenario=scenario)) is None  # type: ignore[arg-type]
    assert ordered_per_s(SimpleNamespace(scenario=None)) is None  # type: ignore[arg-type]
    specs.append(SimpleNamespace(rate=1, starts=5_000))
    with patch("kaput.analysis.questions.rates.pipes", return_value=[]):
        assert ordered_per_s(SimpleNamespace(scenario=scenario)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "last"), [(None, 5), (5, None), (None, None)])
def test_no_load_seconds_without_attempts(first: int | None, last: int | None) -> None:
    assert seconds(first, last) == range(0)


def test_run_without_sends_has_zero_rates(tmp_path: Path) -> None:
    """Nothing a second, and nothing that could slump."""
    told = judged(History(), tmp_path).rates
    assert (told.sent_per_s, told.acked_per_s, told.slumps, told.means) == (0.0, 0.0, [], [])


def test_acked_and_delivered_means_without_acks_are_zero(tmp_path: Path) -> None:
    """Of messages that all failed, and that no group was delivered."""
    history = History(producers=[{"topic": "orders", "acks": "all", "rate": 10}])
    for seq in range(50):
        history.sent(0, seq, None, "failed", attempt_ns=at(100 * seq), done_ns=at(100 * seq + 1))
    found = judged(history.fault(1, 2_000, 3_000), tmp_path).rates
    assert (found.sent_per_s, found.acked_per_s) == (50 / 4.9, 0.0)
    told = [(one.when, one.sent_per_s, one.acked_per_s, one.delivered_per_s) for one in found.means]
    assert told == [("before", 10, 0, 0), ("during", 10, 0, 0), ("after", 10, 0, 0)]


@pytest.mark.parametrize("rate", [1, 3, 7, 35, 1000, 12.5])
def test_exactly_the_share_of_the_rate_is_no_slump(rate: float, tmp_path: Path) -> None:
    """Four fifths of the rate, as integers compare it."""
    history = History(producers=[{"topic": "orders", "acks": "all", "rate": rate}])
    given = inputs.read(check(history.acked(0, 0, 0).read_to_end().write(tmp_path)))
    enough = -(-4 * Fraction(rate) // 5)
    counts = {second: int(enough) for second in range(10)}
    [slump] = rates.slumps(given, {"acked": counts}, range(10))
    assert slump.total_s == 0
