"""The ledger of a living cluster: the fate of every message so far.

Evidence is held as runs (runs/run.py), but without times, so that consecutive runs merge: a producer whose
messages all arrive is one run of sends, one of the log and one of deliveries, however long it lasts. The
analysis's questions are asked of all runs whenever totals are needed, so nothing is counted twice, and a gap
that fills is no longer a gap.

A message is *missing* once the reader is past its acknowledged offset and has not found it, and *late* if it
is found after all. Messages that the reader has not reached are `unread`.

If a producer's messages are spread over partitions, each run is one message: then complete ones are *folded*,
which discards where they are (see `folded`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.analysis.engine.asking import RunTotals, TaskFinds, ask, passed_tables
from kaput.analysis.engine.pieces import Parts, Piece, pack
from kaput.analysis.engine.question import Question
from kaput.analysis.questions.fates import Fates, Phantoms
from kaput.analysis.questions.order import StorageOrder, unique_messages
from kaput.analysis.runs.columns import ACKED, LOST, NAMED, looked_up, none
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming.arrivals import Arrivals, no_runs, same_and_steps
from kaput.analysis.streaming.inferred_sends import Numbered
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.analysis.views.stretches import messages, uncommitted

FOLD_RUNS = 10_000  # above this number of runs, complete messages are folded
_ONE = Parts(1, 1)
_QUESTIONS: Sequence[Question] = (Fates(), Phantoms(), StorageOrder())
_OF_MESSAGES: Sequence[Question] = _QUESTIONS[:2]
_OF_PLACES: Sequence[Question] = _QUESTIONS[2:]
_GAP = ("producer", "seq", "n")


class MessagesSoFar(Messages):
    """The messages so far, matched. `not_reached`: whether a stretch may still be found in the log."""

    def __init__(
        self,
        sends: pl.DataFrame,
        log: pl.DataFrame,
        deliveries: pl.DataFrame,
        known: Known,
        not_reached: pl.Expr,
    ) -> None:
        self.known, self.part, self.cases = known, 0, {}
        self.tables = {"sends": sends, "log": log, "deliveries": deliveries}
        self.groups = range(len(known.names.groups))
        no_transactions = none("producer", "transaction", "first_seq", "state", "seq", "n")
        no_transactions = no_transactions.with_columns(whole=pl.lit(True))
        matched = messages(sends, log, deliveries, no_transactions, self.groups)
        self.copies, self.deliveries = matched.copies, matched.deliveries
        unread = (pl.col("stored") == 0) & not_reached
        self.stretches = matched.stretches.with_columns(unread=unread).with_columns(uncommitted=uncommitted())

    def _where_and_when(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(place=pl.coalesce("first_place", "place"), offset="first_offset")


@dataclass(frozen=True)
class Totals:
    """Numbers of messages so far. `sent`: those with a known outcome; `fates`: by outcome and times stored
    (0, 1, n, unread), as in findings; `group_fates`: by group, also by times delivered. `missing` and late:
    see the module docstring. `..._at`: by place; for missing ones if known; for duplicated ones, of the last
    copy. `phantoms`: records.
    """

    fates: Mapping[tuple[str, str], int]
    group_fates: Mapping[tuple[str, str, str, str], int]
    missing: int
    missing_at: Mapping[int, int]
    late_at: Mapping[int, int]
    duplicated_at: Mapping[int, int]
    reordered_at: Mapping[int, int]
    phantoms: int

    @property
    def sent(self) -> int:
        """The number of messages with a known outcome."""
        return sum(self.fates.values())

    @property
    def late(self) -> int:
        """The number that were missing and have been found."""
        return sum(self.late_at.values())

    @property
    def duplicated(self) -> int:
        """The number stored more than once."""
        return sum(self.duplicated_at.values())

    @property
    def reordered(self) -> int:
        """The number stored after a later one."""
        return sum(self.reordered_at.values())

    def outcome(self, word: str) -> int:
        """The number with an outcome."""
        return sum(n for (outcome, _), n in self.fates.items() if outcome == word)


@dataclass(frozen=True)
class Ledger:
    """`sends`, `log`, `deliveries`: runs of messages; `positions`: by place, the next offset of the reader of
    the log. `missing`: stretches of messages (producer, seq, n); `late`: by place, the number of late ones.
    `reordered`: by place, the number among folded messages. `complete`: whether every log was read to its
    end. `numbered`: set if only numbers tell what was sent (inferred_sends.py).
    """

    names: Names
    sends: pl.DataFrame
    log: pl.DataFrame
    deliveries: pl.DataFrame
    positions: Mapping[int, int]
    missing: pl.DataFrame
    late: Mapping[int, int] = field(default_factory=dict)
    reordered: Mapping[int, int] = field(default_factory=dict)
    complete: bool = False
    numbered: Numbered | None = None

    @classmethod
    def empty(cls, names: Names, implied: bool = False) -> Ledger:
        """An empty ledger. `implied`: only numbers tell which messages were sent."""
        numbered = Numbered() if implied else None
        sends, log, deliveries = map(no_runs, ("sends", "log", "deliveries"))
        return cls(names, sends, log, deliveries, {}, none(*_GAP), numbered=numbered)

    @property
    def runs(self) -> int:
        """The number of runs, which determines the ledger's size."""
        return self.sends.height + self.log.height + self.deliveries.height

    def after(self, arrived: Arrivals) -> Ledger:
        """The ledger after one more micro-batch."""
        positions = dict(self.positions)
        for place, offset in arrived.positions.items():
            positions[place] = max(offset, positions.get(place, 0))
        read = arrived.log.filter(NAMED)
        numbered = None if self.numbered is None else self.numbered.after(read)
        sends = [self.sends, arrived.sends] if numbered is None else [no_runs("sends"), numbered.sends()]
        grown = replace(
            self,
            numbered=numbered,
            sends=coalesced(sends, "sends"),
            log=coalesced([self.log, read], "log"),
            deliveries=coalesced([self.deliveries, arrived.deliveries], "deliveries"),
            positions=positions,
        )
        with_gaps = grown._with_gaps()
        return with_gaps.folded() if with_gaps.runs > FOLD_RUNS else with_gaps

    def read_to_the_end(self, tops: Mapping[int, int]) -> Ledger:
        """The ledger after every log was read to its end: nothing is `unread` any more. `tops`: if only
        numbers tell what was sent, those that are judged, by producer.
        """
        numbered = None if self.numbered is None else self.numbered.judged(tops)
        return replace(self, complete=True, numbered=numbered)._with_gaps()

    def totals(self) -> Totals:
        """Asks the questions of everything so far."""
        view = self._view()
        finds = ask(_OF_MESSAGES, "messages", view, _ONE)
        totals = RunTotals.of(_OF_MESSAGES)
        totals.add([finds], _OF_MESSAGES, self.names)
        fates = totals.sums["fates"].group_by("outcome", "stored").agg(pl.col("n").sum())
        groups = totals.sums["group_fates"].select("group", "outcome", "stored", "delivered", "n")
        return Totals(
            fates={(outcome, stored): n for outcome, stored, n in fates.iter_rows()},
            group_fates={(self.names.groups[g], o, s, d): n for g, o, s, d, n in groups.iter_rows()},
            missing=int(self.missing["n"].sum()),
            missing_at=_by_place(view.stretches.filter(LOST), "place"),
            late_at=self.late,
            duplicated_at=_by_place(_last_copies(view), "place"),
            reordered_at=Counter(self.reordered) + self._reordered(self.log, finds),
            # Sends are recorded a little later: until the end a message may only look like a phantom.
            phantoms=totals.counted("phantom") if self.complete else 0,
        )

    def folded(self) -> Ledger:
        """A ledger with the same totals but fewer runs: discards where messages are that were acknowledged,
        stored once and delivered once to each group, except the last one of each producer at each place. A
        later copy still counts as a duplicate, but whether it is at the same place or out of order there is
        no longer known.
        """
        view = self._view()
        as_claimed = pl.col("borne_out") | pl.col("offset").is_null()
        settled = ACKED & (pl.col("stored") == 1) & as_claimed & pl.col("first_place").is_not_null()
        for group in view.groups:
            settled &= pl.col(f"delivered_{group}") == 1
        last = pl.col("seq") == pl.col("seq").max().over("producer", "first_place")
        whole = view.stretches.filter(settled).filter(~last)
        if whole.is_empty():
            return self
        sends, log, deliveries, done = overlay(
            [self.sends, self.log, self.deliveries, whole.select(*_GAP, "topic", "outcome")], MESSAGES
        )
        parts = done["part"].unique().implode()
        unplaced = {"place": pl.lit(None, pl.Int64), "offset": pl.lit(None, pl.Int64)}
        rest_of_log = log.filter(~pl.col("part").is_in(parts))
        flags = {"epoch": pl.lit(None, pl.Int64), "intact": pl.lit(True), "visible": pl.lit(True)}
        groups = [done.with_columns(group=pl.lit(g, pl.Int64), **unplaced) for g in view.groups]
        delivered = deliveries.filter(~pl.col("part").is_in(parts))
        smaller = replace(
            self,
            sends=coalesced(
                [sends.filter(~pl.col("part").is_in(parts)), done.with_columns(**unplaced)], "sends"
            ),
            log=coalesced([rest_of_log, done.with_columns(**unplaced, **flags)], "log"),
            deliveries=coalesced([delivered, *groups], "deliveries"),
        )
        before, after = (self._reordered(runs, TaskFinds({})) for runs in (self.log, smaller.log))
        return replace(smaller, reordered=Counter(self.reordered) + (before - after))

    def _view(self) -> MessagesSoFar:
        runs = (self.sends, self.log, self.deliveries)
        return MessagesSoFar(*runs, self._known(), self._not_reached().fill_null(True))

    def _not_reached(self) -> pl.Expr:
        """Whether the reader may still find a stretch, also if it is partway through it."""
        if self.numbered is not None:
            end, of, reached = pl.col("n") + pl.col("seq"), "producer", self.numbered.settled
        elif self.complete:
            return pl.lit(False)
        else:
            end, of, reached = pl.col("n") + pl.col("offset"), "place", self.positions
        return end > looked_up(pl.col(of), reached, -1)

    def _with_gaps(self) -> Ledger:
        """The ledger with what is missing now. Messages that were missing and have been found become late."""
        view = self._view()
        gone = view.stretches.filter(LOST).select(_GAP)
        if self.missing.is_empty():
            return replace(self, missing=gone)
        before, as_claimed = overlay([self.missing, view.stored().select(*_GAP, "first_place")], MESSAGES)
        filled = as_claimed.filter(pl.col("part").is_in(before["part"].implode()))
        return replace(self, missing=gone, late=Counter(self.late) + _by_place(filled, "first_place"))

    def _reordered(self, log: pl.DataFrame, finds: TaskFinds) -> Counter[int]:
        pieces = [Piece("log", pack(log)), *(piece for _, piece in finds.pieces)]
        places = Places(pieces, self._known(), passed_tables(_QUESTIONS) | _PASSED, 0)
        late = ask(_OF_PLACES, "places", places, _ONE).sums.get("late")
        return Counter() if late is None else _by_place(unique_messages(late), "place")

    def _known(self) -> Known:
        return Known(self.names, _ONE, 1, pl.DataFrame())


# Empty tables that questions about mirrors and stores would pass on: a watch has neither.
_PASSED = {"mirrored_copies": none("place", "offset", *_GAP), "kept_copies": none("place", *_GAP)}


def _last_copies(view: MessagesSoFar) -> pl.DataFrame:
    """The last copies of messages stored more than once. Folded first copies have no place."""
    twice = view.stored(pl.col("stored") > 1)["part"].implode()
    copies = view.copies.filter(pl.col("part").is_in(twice)).drop_nulls("place")
    return copies.sort("offset").unique("part", keep="last")


def _by_place(stretches: pl.DataFrame, column: str) -> Counter[int]:
    """The number of messages at each place, without those whose place is unknown."""
    at = stretches.drop_nulls(column).group_by(column).agg(pl.col("n").sum())
    return Counter(dict(at.iter_rows()))


def coalesced(frames: Sequence[pl.DataFrame], table: str) -> pl.DataFrame:
    """The runs of these frames of a table, with consecutive ones merged."""
    same, steps = same_and_steps(table)
    columns = [*same, *steps, "n"]
    runs = pl.concat([frame.select(columns) for frame in frames], how="vertical_relaxed")
    runs = runs.sort([*same, *steps])
    before = pl.col("n").shift(1)
    new = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in same]
    new += [pl.col(name).ne_missing(pl.col(name).shift(1) + before) for name in steps]
    joined = runs.with_columns(run=pl.any_horizontal(new).cum_sum())
    first = (pl.col(name).first() for name in (*same, *steps))
    return joined.group_by("run", maintain_order=True).agg(*first, pl.col("n").sum()).select(columns)
