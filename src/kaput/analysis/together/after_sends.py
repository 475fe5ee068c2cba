"""What only a second pass over sends finds: who was affected by a fault, which reordered messages a change of
leader came between, and silences within a spell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from kaput.analysis import examples
from kaput.analysis.account import Account, ReorderedRow, Silence, WindowCounts
from kaput.analysis.inputs import Inputs
from kaput.analysis.questions import order, silence
from kaput.analysis.runs.cutting import single
from kaput.analysis.stages.by_place import PlaceResults
from kaput.analysis.stages.job import Job, Tables
from kaput.analysis.stages.over_sends import SendContext
from kaput.analysis.together.after_places import fault_windows

_DIFFER = (pl.col("epoch") != pl.col("top_epoch")).fill_null(False)


def add(
    job: Job, given: Inputs, account: Account, results: Sequence[PlaceResults], affected: Mapping[str, int]
) -> None:
    """Adds the windows of faults, and what is reordered, to the account.

    `affected`: lost messages by fault.
    """
    late = order.messages(pl.concat([part.late for part in results]))
    account.cases["reordered", None, False] = int(late["n"].sum())
    elections = {
        given.names.code(place): led
        for place, changes in account.timeline.changes.items()
        if (led := [c.at_ns for c in changes if c.is_election])
    }
    open_ = late.filter(~_DIFFER, pl.col("place").is_in(list(elections)))
    asked = SendContext(given.names, fault_windows(given, account), open_, elections)
    across: dict[int, int] = {}
    if asked.fault_windows or open_.height:
        found = job.rescan_sends(asked)
        across = dict(found["across"].iter_rows())
        for fault, sent, hit, loss_sent, loss_acked in found["fault_windows"].iter_rows():
            account.window_counts[fault] = WindowCounts(
                sent, hit + affected.get(fault, 0), loss_sent, loss_acked
            )
    account.reordered = list(_reordered(late, across))
    shown = late.sort("producer", "seq").head(examples.SHOWN)
    few = examples.first(single(examples.few(shown)), ["producer", "seq"])
    account.examples += examples.as_cases("reordered", few.rename({"top": "other_seq"}), given.names)


def _reordered(late: pl.DataFrame, across: Mapping[int, int]) -> Iterator[ReorderedRow]:
    """By producer, and whether its partition changed its leader meanwhile."""
    counts: Counter[tuple[int, bool]] = Counter()
    for producer, over, n in late.select("producer", _DIFFER.alias("over"), "n").iter_rows():
        counts[producer, over] += n
    for producer, n in across.items():
        counts[producer, False] -= n
        counts[producer, True] += n
    for (producer, over), n in sorted(counts.items()):
        if n:
            yield ReorderedRow(producer, over, n)


def silences(job: Job, given: Inputs, account: Account, sums: Tables, width_ns: int) -> None:
    """Adds the longest silence of each stream, and around each fault; where one may be within a spell,
    spells are taken again, narrower.
    """
    spells, spans = sums["spells"], sums["sent"].drop_nulls("place")
    while True:
        found = silence.longest(silence.silences(spells, spans, silence.STREAM), silence.STREAM)
        account.quiet = _quiet(given, account, silence.silences(spells, spans, ["place"]))
        short = set(found.filter(pl.col("to_ns") - pl.col("from_ns") < width_ns)["place"])
        for reach in account.reaches:
            if account.quiet.get(reach.fault.id, width_ns) < width_ns:
                short |= {given.names.code(place) for place in reach.places}
        if width_ns == silence.EXACT_NS or not short:
            break
        width_ns = max(silence.EXACT_NS, width_ns // silence.NARROWER)
        streams = spans.filter(pl.col("place").is_in(sorted(short))).select(silence.STREAM).unique()
        narrow = job.rescan_sends(SendContext(given.names, streams=streams, width_ns=width_ns))["spells"]
        spells = pl.concat([spells.join(streams, on=list(silence.STREAM), how="anti"), narrow])
    account.gaps = [Silence(*row) for row in found.select(Silence._fields).iter_rows()]


def _quiet(given: Inputs, account: Account, gaps: pl.DataFrame) -> dict[str, int]:
    """By fault: the longest time in ns without an acknowledgement from a partition that it reached."""
    found: dict[str, int] = {}
    for reach in account.reaches:
        since, until = reach.fault.effective_ns, reach.restored_ns or given.ended_ns
        codes = [given.names.code(place) for place in reach.places]
        if since is None or not codes:
            continue
        here = gaps.filter(pl.col("place").is_in(codes), pl.col("to_ns") > since, pl.col("from_ns") < until)
        longest = here.select((pl.col("to_ns") - pl.col("from_ns").clip(lower_bound=since)).max()).item()
        if longest is not None:
            found[reach.fault.id] = longest
    return found
