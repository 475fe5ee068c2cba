"""Rates: means over the run; and whether the run reached its requested rate: stretches of seconds below it,
and means before, during and after the faults. The latter only if every producer has a rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Question, Reported, facts, findings
from kaput.analysis.engine.steps import count_ns
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.run import Run
from kaput.core import MS, SECOND
from kaput.evidence.findings import RateFindings
from kaput.evidence.findings_claims import Claim
from kaput.evidence.findings_parts import MeanRates, Slump, When
from kaput.evidence.schemas import CPU
from kaput.scenario.model import pipes

Counts = Mapping[str, Mapping[int, int]]  # by what happened, and by second since the Unix epoch
SHARE = Fraction(4, 5)  # of the ordered rate: what R5 wants an alert below
_CHECKED = ("acked", "delivered")


class LoadRates(Question):
    """Reports rates, from the counts of each second (time_series.py), on the driver."""

    def report(self, run: Run) -> Iterator[Reported]:
        """Means from the first attempt to the last attempt and to the last acknowledgement; slumps."""
        sent, fates = run.sums["sent"], run.sums["fates"]
        begin = sent["begin_ns"].min()

        def mean(count: int, end: object) -> float:
            if not isinstance(begin, int) or not isinstance(end, int) or end <= begin:
                return 0.0
            return count / ((end - begin) / 1e9)

        by_second, load = _per_second(run), seconds(begin, sent["last_attempt_ns"].max())
        # Without the times of all acknowledgements, what was acknowledged in a second is not known.
        timed = not run.sums["untimed_acks"]["n"].sum()
        slumps_ = slumps(run.given, by_second, load) if timed else []
        acked = int(fates.filter(outcome="acked")["n"].sum())
        yield findings(
            rates=RateFindings(
                sent_per_s=mean(int(fates["n"].sum()), sent["last_attempt_ns"].max()),
                acked_per_s=mean(acked, sent["last_ack_ns"].max()),
                ordered_per_s=ordered_per_s(run.given),
                **_cpu(run.given, begin, sent["last_ack_ns"].max(), acked),
                slumps=slumps_,
                means=means(run.given, by_second, load) if timed else [],
            )
        )
        yield findings(claims=list(_load(run)) if timed else [])
        yield facts(slump_s=max((one.longest_s for one in slumps_), default=None))


def _load(run: Run) -> Iterator[Claim]:
    """The rate that was asked for, and what was sent and acknowledged of it, before the first fault is
    injected (or in all).
    """
    sent, span, width_ns = run.sums["sent"], run.given.fault_span, count_ns(run.work.step_ns)
    begin_ns, end_ns = sent["begin_ns"].min(), sent["last_attempt_ns"].max()
    if not isinstance(begin_ns, int) or not isinstance(end_ns, int):
        return
    until_ns = end_ns + 1  # the step of the last attempt is one of them, whole
    if span is not None and span[0] < end_ns:
        until_ns = end_ns = span[0] // width_ns * width_ns
    last = sent.group_by("producer").agg(pl.col("last_attempt_ns").max()).drop_nulls()
    asked = _asked(run.given, begin_ns, end_ns, dict(last.iter_rows()))
    if asked is None or end_ns - begin_ns < SECOND:
        return
    steps, seconds = run.sums["steps"].filter(pl.col("at_ns") < until_ns), (end_ns - begin_ns) / SECOND
    figures: dict[str, int | float] = {"asked_per_s": asked[0] / seconds, "burst": asked[1]}
    for name, what in (("sent_per_s", "attempted"), ("reached_per_s", "acked")):
        figures[name] = int(steps.filter(what=what)["times"].sum()) / seconds
    yield Claim(kind="load", from_ns=begin_ns, to_ns=end_ns, figures=figures)


def _cpu(given: Inputs, begin: object, end: object, acked: int) -> dict[str, Any]:
    """The fields of RateFindings on the CPU time of the nodes; none if it is unknown."""
    if not isinstance(begin, int) or not isinstance(end, int) or not acked:
        return {}
    used, sharing = _cpu_used(given.samples, begin, end), 1 + len(given.manifest.shares_cluster_with)
    if used is None:
        return {}
    seconds, began = used
    return {"cpu_us_per_message": seconds * 1e6 / acked / sharing, "cpu_processes_begun": began}


def _per_second(run: Run) -> dict[str, dict[int, int]]:
    """Counts by what happened, and by second since the Unix epoch."""
    second = (pl.col("at_ns") // SECOND).alias("second")
    counts = run.sums["steps"].group_by("what", second).agg(pl.col("times").sum())
    by_second: dict[str, dict[int, int]] = {}
    for what, at, n in counts.iter_rows():
        by_second.setdefault(what, {})[at] = n
    return by_second


def _asked(given: Inputs, begin_ns: int, end_ns: int, last_ns: Mapping[int, int]) -> tuple[float, int] | None:
    """The messages requested between the first attempt and this time: a producer counts from its start until
    it had everything to send, or until it had sent it, if that took longer. And how many their transactions
    hold, one of each. None if one has no rate (a pipe).
    """
    if given.scenario is None or pipes(given.scenario):
        return None
    specs, asked = given.scenario.producer_specs(), 0.0
    first_ms = min((spec.starts or 0 for spec in specs), default=0)
    for number, spec in enumerate(specs):
        if spec.rate == "max":
            return None
        from_ns = begin_ns + ((spec.starts or 0) - first_ms) * MS
        took_ns = spec.duration * MS if spec.duration else (spec.messages or 0) / spec.rate * SECOND
        to_ns = max(from_ns + took_ns, last_ns.get(number, 0))
        asked += spec.rate * max(0, min(to_ns, end_ns) - from_ns) / SECOND
    burst = sum(spec.transactions.size for spec in specs if spec.transactions is not None)
    return (asked, burst) if specs else None


def ordered_per_s(given: Inputs) -> float | None:
    """The rate requested of all producers; None if one has none (a pipe) or starts later."""
    if given.scenario is None or pipes(given.scenario):
        return None
    specs = given.scenario.producer_specs()
    rates = [spec.rate for spec in specs if spec.rate != "max" and spec.starts is None]
    return sum(rates) if rates and len(rates) == len(specs) else None


def slumps(given: Inputs, by_second: Counts, load: range) -> list[Slump]:
    """Slumps of acknowledgements, and of deliveries if there is one group. `load`: the seconds to check."""
    requested = ordered_per_s(given)
    if requested is None or not load:
        return []
    checked = _CHECKED if len(given.groups) == 1 else _CHECKED[:1]
    below = SHARE * Fraction(str(requested))
    return [_slump(what, by_second.get(what, {}), load, below) for what in checked]


def seconds(first_ns: object, last_ns: object) -> range:
    """The whole seconds between the first attempt and the last."""
    if not isinstance(first_ns, int) or not isinstance(last_ns, int):
        return range(0)
    return range(-(-first_ns // SECOND), last_ns // SECOND)


def _slump(what: str, counts: Mapping[int, int], load: range, below: Fraction) -> Slump:
    # Goes from one second with the rate to the next: a damaged time may make a gap of years.
    enough = sorted(second for second in _within(counts, load) if counts[second] >= below)
    longest = max(two - one - 1 for one, two in pairwise([load.start - 1, *enough, load.stop]))
    return Slump(what=what, below_per_s=float(below), longest_s=longest, total_s=len(load) - len(enough))


def means(given: Inputs, by_second: Counts, load: range) -> list[MeanRates]:
    """Means before the first fault was injected, until the last heal, and from then to the last attempt."""
    if ordered_per_s(given) is None:
        return []
    return [
        MeanRates(
            when=when,
            seconds=len(during),
            sent_per_s=_mean(by_second.get("attempted", {}), during),
            acked_per_s=_mean(by_second.get("acked", {}), during),
            delivered_per_s=_mean(by_second.get("delivered", {}), during),
        )
        for when, during in _times(given, load)
        if during
    ]


def _times(given: Inputs, load: range) -> Iterator[tuple[When, range]]:
    if given.fault_span is None:
        return
    begin, end = given.fault_span[0] // SECOND, -(-given.fault_span[1] // SECOND)
    yield "before", range(load.start, max(load.start, min(begin, load.stop)))
    yield "during", range(max(begin, load.start), max(begin, load.start, min(end, load.stop)))
    yield "after", range(max(end, load.start), max(end, load.start, load.stop))


def _mean(counts: Mapping[int, int], during: range) -> float:
    return sum(counts[second] for second in _within(counts, during)) / len(during)


def _within(counts: Mapping[int, int], during: range) -> list[int]:
    """The seconds of `during` in which anything happened."""
    return [second for second in counts if second in during]


def _cpu_used(samples: Iterable[Mapping[str, Any]], from_ns: int, to_ns: int) -> tuple[float, int] | None:
    """The CPU seconds of all nodes between these times, and how many of their processes began meanwhile:
    their start is included. None without a sample before. Between two samples a counter grows evenly, but
    that of an idle node before `from_ns`. The counter of a process without a sample at or before `from_ns` is
    taken to have begun at 0 since.
    """
    by_process: defaultdict[object, list[tuple[int, float]]] = defaultdict(list)
    for row in samples:
        if row["name"] == CPU:
            labels = dict(row["labels"])
            process = (row.get("cluster"), labels.get("node"), labels.get("pid"))
            by_process[process].append((row["at_ns"], row["value"]))
    before = {
        process: max(value for at, value in values if at <= from_ns)
        for process, values in by_process.items()
        if min(values)[0] <= from_ns
    }
    if not before:
        return None
    most = {
        process: float(np.interp(to_ns, *np.array(sorted(values)).T))
        for process, values in by_process.items()
        if min(values)[0] <= to_ns
    }
    seconds = sum(value - before.get(process, 0.0) for process, value in most.items())
    return seconds, len(most.keys() - before.keys())
