"""Latencies from the attempt of a message to its acknowledgement, and to its first delivery.

Durations are counted by whole microseconds, so that percentiles of any number of messages are exact and
counts of several tasks add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import numpy as np
import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings, group
from kaput.analysis.engine.sums import Sum, times
from kaput.analysis.run import Run
from kaput.analysis.runs.run import NULL, Ints, picked, spread, whole_us
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.rows import Rows
from kaput.evidence.findings import Latency
from kaput.evidence.findings_parts import LatencyAround, Percentiles, When

SHARES = (0.5, 0.99, 0.999)
WHENS: tuple[When, ...] = get_args(When)  # before, during and after the faults
_Whens = np.ndarray[Any, np.dtype[np.int8]]


class Latencies(Question):
    """Counts latencies over the whole run and in each step of time (engine/steps.py)."""

    sums = {
        "acked_us": Sum(("when", "us"), ("times",)),
        "end_to_end": Sum(("group", "when", "us"), ("times",)),
        "graded_acks": steps.GRADES,
        "longest_acks": steps.LONGEST,
        "graded_deliveries": steps.GRADES,
        "longest_deliveries": steps.LONGEST,
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Latencies of acknowledgements."""
        if rows.table != "sends":
            return
        dones, took = rows.acked.rows["dones"], rows.acked_us
        graded, longest = rows.graded
        yield SumPart("graded_acks", graded, summed=True)
        yield SumPart("longest_acks", longest, summed=True)
        known = dones != NULL
        when = whens(rows.known.fault_span, rows.acked.rows["attempts"], dones)
        if not known.all():
            when, took = when[known], took[known]
        yield SumPart("acked_us", counted(when, took), summed=True)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Latencies of first deliveries, by group; and in each step, over all groups."""
        none, step_ns = np.empty(0, np.int64), messages.known.step_ns
        counts = [counted(none.astype(np.int8), none).with_columns(group=pl.lit(0, pl.Int64))]
        stepped = [steps.graded("delivered", none, none, step_ns)]
        for index in messages.groups:
            deliveries = messages.deliveries.filter(group=index)
            attempts = messages.times["attempts"]
            for first in first_deliveries(messages.stretches, deliveries, attempts, messages.polls):
                took = whole_us(first.polled_ns - first.since_ns)
                when = whens(messages.known.fault_span, first.since_ns, first.polled_ns)
                counts.append(counted(when, took).with_columns(group=pl.lit(index, pl.Int64)))
                stepped.append(steps.graded("delivered", first.polled_ns, took, step_ns))
        graded, longest = zip(*stepped, strict=True)
        yield SumPart("end_to_end", pl.concat(counts))
        yield SumPart("graded_deliveries", pl.concat(graded))
        yield SumPart("longest_deliveries", pl.concat(longest))

    def report(self, run: Run) -> Iterator[Reported]:
        """Percentiles of acknowledgements, of each group, and of all groups together; also before, during and
        after the faults.
        """
        acks, counts = run.sums["acked_us"], run.sums["end_to_end"]
        around = [
            LatencyAround(
                when=when, ack=_ms(acks.filter(when=number)), end_to_end=_ms(counts.filter(when=number))
            )
            for number, when in enumerate(WHENS if run.given.fault_span else ())
        ]
        found = Latency(ack=_ms(acks), end_to_end=_ms(counts), around_faults=around)
        yield findings(latency_ms=found)
        yield facts(ack_p99_ms=found.ack.p99, end_to_end_p99_ms=found.end_to_end.p99)
        for index in run.groups:
            yield group(index, end_to_end_ms=_ms(counts.filter(group=index)))


def _ms(counts: pl.DataFrame) -> Percentiles:
    """Percentiles in ms of (us, times), in which durations may repeat. Nulls without measurements."""
    found = percentiles(*(counts[name].to_numpy() for name in ("us", "times")))
    if found is None:
        return Percentiles()
    p50, p99, p999 = (value / 1000 for value in found[0])
    return Percentiles(p50=p50, p99=p99, p999=p999, max=found[1] / 1000)


def whens(span: tuple[int, int] | None, attempts: Ints, dones: Ints) -> _Whens:
    """The index in WHENS of each duration: `before` if done before the first fault that took effect was
    injected, `after` if attempted after the last heal, else `during`. `span`: those two times; None: all are
    `before`.
    """
    when = np.zeros(len(dones), np.int8)
    if span is not None:
        when[dones >= span[0]] = 1
        when[attempts >= span[1]] = 2
    return when


def counted(when: _Whens, durations_us: Ints) -> pl.DataFrame:
    """(when, us, times): the number of durations of each whole microsecond."""
    chosen = [when == number for number in range(len(WHENS))]
    parts = [times(durations_us if each.all() else durations_us[each]) for each in chosen]
    us, often = (np.concatenate(each) for each in zip(*parts, strict=True))
    of = np.repeat(np.arange(len(WHENS)), [len(each) for each, _ in parts])
    columns = {"when": of, "us": us, "times": often}
    return pl.DataFrame([pl.Series(name, each, pl.Int64) for name, each in columns.items()])


def percentiles(us: Ints, times: Ints) -> tuple[list[float], int] | None:
    """The percentiles of SHARES and the maximum of durations in microseconds, which may repeat, and how often
    each occurs; None without durations.

    Interpolates linearly: method 7 of Hyndman & Fan, Sample Quantiles in Statistical Packages (1996).
    """
    if len(us) == 0:
        return None
    order = np.argsort(us)
    us, ends = us[order], np.cumsum(times[order])
    total = int(ends[-1])

    def at(rank: int) -> float:
        return float(us[np.searchsorted(ends, rank, side="right")])

    shown = []
    for share in SHARES:
        place = share * (total - 1)
        low, high = at(math.floor(place)), at(math.ceil(place))
        shown.append(
            low if low == high else (math.ceil(place) - place) * low + (place - math.floor(place)) * high
        )
    return shown, int(us[-1])


class FirstDeliveries(NamedTuple):
    """First deliveries of messages to one group, as runs: the `part` of each and its `n` messages; and by
    message, when it was delivered, and its time in an array of sends.
    """

    part: Ints
    n: Ints
    polled_ns: Ints
    since_ns: Ints


def first_deliveries(
    sends: pl.DataFrame, deliveries: pl.DataFrame, times: Ints, polls: Ints
) -> Iterator[FirstDeliveries]:
    """Of these messages, those that were delivered to one group once; then those that were more often.
    `sends` and `deliveries`: overlaid runs (cutting.py), whose `row` indexes the arrays `times` and `polls`.
    """
    part, n = deliveries["part"].to_numpy(), deliveries["n"].to_numpy()
    size = 1 + max((int(each.max()) for each in (part, sends["part"].to_numpy()) if len(each)), default=-1)
    row = np.full(size, -1)
    row[sends["part"].to_numpy()] = sends["row"].to_numpy()
    often = np.bincount(part, minlength=size)[part]
    sent, poll = row[part], deliveries["row"].to_numpy()
    once, more = (sent >= 0) & (often == 1), (sent >= 0) & (often > 1)
    since_ns = picked(times, sent[once], n[once])
    yield FirstDeliveries(part[once], n[once], picked(polls, poll[once], n[once]), since_ns)
    if not more.any():
        return
    at, polled = spread(sent[more], n[more]), spread(poll[more], n[more])
    order = np.argsort(at, kind="stable")
    which, begin = np.unique(at[order], return_index=True)
    first = np.minimum.reduceat(polls[polled][order], begin)
    parts = np.repeat(part[more], n[more])[order][begin]
    yield FirstDeliveries(parts, np.ones_like(parts), first, times[which])
