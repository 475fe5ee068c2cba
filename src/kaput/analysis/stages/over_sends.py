"""A second pass over sends, for what only the whole run tells: who was affected by a fault, and which
reordered messages a change of leader came between.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from kaput.analysis.names import Names
from kaput.analysis.questions import fault_windows, silence
from kaput.analysis.questions.fault_windows import FaultWindow
from kaput.analysis.questions.messages import ACKED
from kaput.analysis.runs import encoding
from kaput.analysis.runs.tables import Unit, empty, of_frame, read, spans
from kaput.analysis.sums import Sum

SUMS: Mapping[str, Sum] = {
    "fault_windows": Sum(("fault",), fault_windows.COUNTS),
    "across": Sum(("producer",), ("n",)),
    "spells": Sum((*silence.STREAM, "first_ns"), (), (), ("last_ns",)),
}


@dataclass(frozen=True)
class SendContext:
    """What is asked. `late`: stretches of reordered messages of which it is not known whether a change of
    leader came between; `elections`: when each place got another leader, ascending; `streams`: those whose
    silences are looked for, by spells of `width_ns`.
    """

    names: Names
    fault_windows: Sequence[FaultWindow] = ()
    late: pl.DataFrame = field(default_factory=lambda: _none("producer", "seq", "n", "place"))
    elections: Mapping[int, Sequence[int]] = field(default_factory=dict)
    streams: pl.DataFrame = field(default_factory=lambda: _none(*silence.STREAM))
    width_ns: int = silence.EXACT_NS


def _none(*columns: str) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))


def concerns(unit: Unit, context: SendContext) -> bool:
    """Whether a row group may have what is asked, by what its file tells of it."""
    if context.streams.height:
        return True
    attempts, dones, seqs = spans(unit, ("attempt_ns", "done_ns", "seq"))
    late = context.late.select(pl.col("seq").min(), end=(pl.col("seq") + pl.col("n") - 1).max()).row(0)
    return _meet(seqs, *late) or any(
        _meet(attempts, window.from_ns, window.to_ns)
        or _meet(attempts, window.loss_from_ns, window.loss_to_ns)
        or _meet(dones, window.loss_from_ns, window.loss_to_ns)
        for window in context.fault_windows
    )


def _meet(span: tuple[int, int] | None, first: int | None, last: int | None) -> bool:
    if first is None or last is None:
        return False
    return span is None or (span[0] <= last and first <= span[1])


def scan(units: Iterable[Unit], context: SendContext) -> Iterator[bytes]:
    """One task: all of SUMS of each row group."""
    for unit in units:
        rows = read(unit, context.names).whole()
        yield pickle.dumps(
            {
                "fault_windows": fault_windows.counts(rows, context.fault_windows),
                "across": SUMS["across"].of(_across(rows, context)),
                "spells": _spells(rows.join(context.streams, on=list(silence.STREAM), how="semi"), context),
            }
        )


def _across(rows: pl.DataFrame, context: SendContext) -> pl.DataFrame:
    """(producer, n): reordered messages whose partition got a leader between attempt and outcome."""
    late = context.late.select("producer", begin="seq", end=pl.col("seq") + pl.col("n"), late_at="place")
    mine = rows.sort("seq").join_asof(
        late.sort("begin"), left_on="seq", right_on="begin", by="producer", check_sortedness=False
    )
    mine = mine.filter(pl.col("seq") < pl.col("end"))
    changed = np.zeros(mine.height, bool)
    for place, led in context.elections.items():
        here = (mine["late_at"] == place).to_numpy()
        since = mine["attempt_ns"].to_numpy()[here]
        until = mine["done_ns"].fill_null(2**63 - 1).to_numpy()[here]
        at = np.array(led, np.int64)
        changed[here] = np.searchsorted(at, until, side="right") > np.searchsorted(at, since, side="right")
    return mine.filter(pl.Series(changed, dtype=pl.Boolean)).select("producer", n=pl.lit(1, pl.Int64))


def _spells(rows: pl.DataFrame, context: SendContext) -> pl.DataFrame:
    return silence.spells(encoding.sends(of_frame(rows)).where(ACKED), context.width_ns)


def nothing() -> dict[str, pl.DataFrame]:
    """The sums of no rows."""
    none = empty("sends")
    return {
        "fault_windows": fault_windows.counts(none.whole(), ()),
        "across": SUMS["across"].of(pl.DataFrame(schema={"producer": pl.Int64, "n": pl.Int64})),
        "spells": silence.spells(encoding.sends(none), 1),
    }
