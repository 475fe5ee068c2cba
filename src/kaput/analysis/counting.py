"""The whole count of one run: the stages one after the other, and what the driver puts together between them."""

from __future__ import annotations

import math
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from pyspark.sql import SparkSession

from kaput.analysis import examples, faults, ledger, replicas
from kaput.analysis.account import Account, DisplacedRow, LossRow, ReorderedRow, Silence, WindowCounts
from kaput.analysis.deposed import Deposed
from kaput.analysis.inputs import Inputs, events_frame
from kaput.analysis.latency import ACK, END_TO_END, Latency
from kaput.analysis.ledger import write
from kaput.analysis.names import Place
from kaput.analysis.partitions import Partitions
from kaput.analysis.questions import latency, losses, order, silence
from kaput.analysis.questions.fault_windows import Window
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.tables import Unit, units
from kaput.analysis.stages import by_message, by_place, over_sends
from kaput.analysis.stages.job import Job, Tables
from kaput.analysis.stages.told import Encoding, Parts, Piece, Reached, Reading
from kaput.analysis.sums import total
from kaput.analysis.tally import Tally, check
from kaput.analysis.timeline import build
from kaput.analysis.watching import Tell, nobody
from kaput.errors import EvidenceError
from kaput.evidence.folder import LedgerRows
from kaput.evidence.reading import Evidence
from kaput.verdict.facts import Circumstances

BIG = ("sends", "log", "deliveries")
_SMALL_ROWS = 500_000  # one task of each kind is enough
_TASK_ROWS = 4_000_000
_PART_MESSAGES = 3_000_000
EXACT_NS = 1  # of a small run every acknowledgement's time is kept


@dataclass(frozen=True)
class Plan:
    """`tasks`: the row groups that each encodes; how many `parts`; how wide a tick is (silence.py)."""

    tasks: Sequence[Sequence[Unit]]
    parts: Parts
    tick_ns: int


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Tasks of about equal size, at least one a core where there is much to do."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in BIG)
    every = [unit for table in BIG for unit in units(evidence, table)]
    if rows <= _SMALL_ROWS:
        return Plan([every], Parts(1, 1), EXACT_NS)
    parts = max(cores, math.ceil(evidence.tables["sends"].rows / _PART_MESSAGES))
    tasks = list(_shared_out(every, max(cores, math.ceil(rows / _TASK_ROWS))))
    return Plan(tasks, Parts(parts, parts), silence.WIDTH_NS)


def _shared_out(every: Sequence[Unit], count: int) -> Iterator[list[Unit]]:
    """Neighbours stay together: a file's row groups are in order within a task."""
    share = sum(unit.rows for unit in every) / count
    task: list[Unit] = []
    for unit in every:
        task.append(unit)
        if sum(one.rows for one in task) >= share:
            yield task
            task = []
    if task:
        yield task


class Count:
    """One run folder counted."""

    def __init__(self, spark: SparkSession, given: Inputs, work: Plan, rows: LedgerRows) -> None:
        self.given, self.names, self.work, self.ledger = given, given.names, work, rows
        self.events = events_frame(given)
        told = Encoding(self.names, work.parts, self.events, work.tick_ns)
        self.job = Job(spark, work.tasks, told)

    def account(self) -> Account:
        """Every stage. Raises EvidenceError, AccountingError."""
        given = self.given
        for table in ("ledger", "lost", "windows", "rates"):
            shutil.rmtree(given.evidence.folder.analysis / table, ignore_errors=True)
        sums = self.job.sums()
        partitions = _partitions(given, sums)
        account = Account(partitions, Tally())
        own = [e for e in given.cluster_events if (e["topic"], e["partition"]) in partitions.complete]
        account.timeline = build(own, given.faults, partitions.logged, partitions.ends)
        account.reaches = faults.plan(given.faults, account.timeline, given.replicas)
        self._messages(account)
        account.tally.first_attempt_ns = sums["sent"]["begin_ns"].min()
        account.tally.last_attempt_ns = sums["sent"]["last_attempt_ns"].max()
        account.tally.last_ack_ns = sums["sent"]["last_ack_ns"].max()
        placed = self._places(account)
        self._again(account, placed, sums)
        self._write(placed, sums)
        account.latencies |= _latency(ACK, sums["acked_us"])
        account.seen = replicas.seen(given)
        return account

    def _messages(self, account: Account) -> None:
        """Stage 2: fates."""
        told = Reading(
            self.names,
            self.work.parts,
            {self.names.code(place) for place, done in account.partitions.complete.items() if done},
            {self.names.topics.index(topic) for topic, done in account.partitions.topics().items() if done},
            self._reads(),
            list(_reached(self.given, account)),
            str(self.given.evidence.folder.analysis / "ledger"),
            self.ledger,
        )
        judged = self.job.messages(told)
        self._refuse(judged)
        self.beside: dict[int, list[Piece]] = {}
        for number, piece in (keyed for part in judged for keyed in part.pieces):
            self.beside.setdefault(number, []).append(piece)
        found = total([part.sums for part in judged], by_message.SUMS)
        account.tally = self._tally(found, sum(part.phantoms for part in judged))
        account.count_unseen(self.given.subscribed)
        account.first_acks = dict(found["first_acks"].drop_nulls().iter_rows())
        account.latencies = self._end_to_end(found["end_to_end"])
        self.under = found["under"]
        account.under = self._under(found["under"])
        rows = []
        for name in judged[0].shown:
            every = pl.concat([part.shown[name] for part in judged])
            by = ["place", "offset", "producer", "seq"] if name == "phantom" else ["producer", "seq"]
            rows += examples.told(name, examples.first(every, by), self.names)
        account.examples = rows

    def _reads(self) -> dict[int, Collection[int]]:
        topics = range(len(self.names.topics))
        return {
            group: topics if wanted is None else [t for t in topics if self.names.topics[t] in wanted]
            for group, wanted in self.given.subscribed.items()
        }

    def _refuse(self, judged: Sequence[by_message.Judged]) -> None:
        """What cannot be counted: rows that stand there twice. Raises EvidenceError."""
        for row in _least([part.doubled["sends"] for part in judged], ["producer", "seq"]):
            raise EvidenceError(
                f"table sends: message {row['seq']} of producer {row['producer']} has more than one row"
            )
        by = ["place", "offset", "producer", "seq"]
        for row in _least([part.doubled["log"] for part in judged], by):
            topic, partition = self.names.place(row["place"]) or ("", 0)
            raise EvidenceError(
                f"table log: {topic}/{partition} offset {row['offset']} stands there {row['times']} times "
                f"with the same message (producer {row['producer']}, seq {row['seq']})"
            )

    def _tally(self, found: Tables, phantoms: int) -> Tally:
        tally = Tally(phantom_records=phantoms)
        for producer, outcome, stored, n, copies in found["fates"].iter_rows():
            tally.fates[outcome, stored] += n
            if stored == "n":
                tally.duplicates[producer] += n
                tally.extra_copies += copies - n
        for group, topic, outcome, stored, delivered, n in found["group_fates"].iter_rows():
            tally.group_fates[group, outcome, stored, delivered] += n
            if stored in ("1", "n") and delivered == "0":
                tally.unseen[group, self.names.topics[topic]] += n
        check(tally, self.names.groups, self.given.evidence.tables["sends"].rows)
        return tally

    def _end_to_end(self, counts: pl.DataFrame) -> dict[int, Latency]:
        found: dict[int, Latency] = {}
        for group in range(len(self.names.groups)):
            found |= _latency(group, counts.filter(group=group))
        if len(self.names.groups) > 1:
            found |= _latency(END_TO_END, counts.group_by("us").agg(pl.col("times").sum()))
        return found

    def _under(self, under: pl.DataFrame) -> dict[tuple[Place, int], int]:
        first = under.group_by("place", "epoch").agg(pl.col("first_ns").min())
        return {
            (place, epoch): at_ns
            for code, epoch, at_ns in first.iter_rows()
            if (place := self.names.place(code)) is not None
        }

    def _places(self, account: Account) -> list[by_place.Placed]:
        """Stage 3: what stands where, and why what was lost is not there."""
        given = self.given
        told = by_place.Placing(
            self.names,
            self.events,
            self.under,
            account.timeline,
            account.partitions.ends,
            given.unacknowledging,
            account.attempted(),
            self._windows(account),
            given.healed,
            str(given.evidence.folder.analysis / "lost"),
        )
        placed = self.job.places(told, self.beside)
        if placed is None:
            bounds = self._slices()
            placed = self.job.in_time(bounds).places(told, self.beside)
            assert placed is not None, "what is in order is not torn"
        found = total([part.sums for part in placed], by_place.SUMS)
        for name, group, flag, n in found["cases"].iter_rows():
            account.cases[name, group, flag] += n
        account.losses = [self._loss(row) for row in found["losses"].iter_rows(named=True)]
        self.lost_in = dict(found["lost_in_windows"].iter_rows())
        account.displaced = [_displaced(row) for p in placed for row in p.displaced.iter_rows(named=True)]
        account.deposed = [self._deposed(row) for p in placed for row in p.deposed.iter_rows(named=True)]
        self._show(account, placed)
        return placed

    def _windows(self, account: Account) -> list[Window]:
        return [
            Window(
                span.fault,
                span.from_ns,
                span.to_ns,
                {
                    self.names.code(place): election[1] if election else None
                    for reach in account.reaches
                    if reach.fault.id == span.fault
                    for place, election in reach.places.items()
                },
                span.loss_from_ns,
                span.loss_to_ns,
            )
            for span in account.spans()
        ]

    def _slices(self) -> list[int]:
        """Times at which deliveries are cut into about equal slices."""
        rates = self.job.sums()["rates"].filter(what="delivered").sort("second")
        share = max(_TASK_ROWS, 1)
        slices = rates.with_columns(slice=(pl.col("times").cum_sum() - 1) // share)
        first = slices.group_by("slice").agg(pl.col("second").min()).sort("slice")
        return [second * 1_000_000_000 for second in first["second"].to_list()[1:]]

    def _loss(self, row: Mapping[str, object]) -> LossRow:
        known = Circumstances(*(bool(row[name]) for name in losses.KNOWN))
        same = {name: row[name] for name in LossRow._fields if name != "known"}
        return LossRow(**same, known=known)  # type: ignore[arg-type]

    def _deposed(self, row: Mapping[str, object]) -> Deposed:
        place = self.names.place(row["place"])  # type: ignore[arg-type]
        assert place is not None, "nothing overwrites what has no place"
        return Deposed(**{**row, "place": place})  # type: ignore[arg-type]

    def _show(self, account: Account, placed: Sequence[by_place.Placed]) -> None:
        rows = list(account.examples)
        for name in placed[0].shown:
            every = pl.concat([part.shown[name] for part in placed], how="diagonal_relaxed")
            by = ["place", "offset", "at_ns", "producer", "seq", "member"]
            by = ["producer", "seq"] if name == "lost" else [column for column in by if column in every.columns]
            rows += examples.told(name, examples.first(every, by), self.names)
        account.examples = rows

    def _again(self, account: Account, placed: Sequence[by_place.Placed], sums: Tables) -> None:
        """A second look at sends, where there is anything that the whole run alone tells."""
        late = order.messages(pl.concat([part.late for part in placed]))
        account.cases["reordered", None, False] = int(late["n"].sum())
        elections = {
            self.names.code(place): [c.at_ns for c in changes if c.is_election]
            for place, changes in account.timeline.changes.items()
        }
        elections = {place: led for place, led in elections.items() if led}
        differ = (pl.col("epoch") != pl.col("top_epoch")).fill_null(False)
        open_ = late.filter(~differ, pl.col("place").is_in(list(elections)))
        windows = self._windows(account)
        told = over_sends.Again(self.names, windows, open_, elections, sums["ticks"].clear(), EXACT_NS)
        if windows or open_.height:
            again = self.job.sends_again(told)
            self._counted(account, again["windows"])
            across = dict(again["across"].iter_rows())
        else:
            across = {}
        account.reordered = list(_reordered(late, differ, across))
        shown = late.sort("producer", "seq").with_columns(other_seq="top")
        few = examples.first(single(examples.few(shown.head(examples.SHOWN)).drop("other_seq")), ["producer", "seq"])
        account.examples = [
            *account.examples,
            *examples.told("reordered", few.rename({"top": "other_seq"}), self.names),
        ]
        self._silences(account, sums)

    def _counted(self, account: Account, counts: pl.DataFrame) -> None:
        account.windows = {
            fault: WindowCounts(sent, affected + self.lost_in.get(fault, 0), loss_sent, loss_acked)
            for fault, sent, affected, loss_sent, loss_acked in counts.iter_rows()
        }

    def _silences(self, account: Account, sums: Tables) -> None:
        """The longest of each stream, and around each fault; looked for again, narrower, where they may lie
        within a tick.
        """
        ticks, width = sums["ticks"], self.work.tick_ns
        spans = sums["sent"].drop_nulls("place")
        while True:
            found = silence.longest(silence.silences(ticks, spans, silence.STREAM), silence.STREAM)
            quiet = _quiet(self.given, account, self.names.code, ticks, spans)
            short = found.filter(pl.col("to_ns") - pl.col("from_ns") < width)
            places = {p for one in account.reaches for p in one.places if quiet.get(one.fault.id, width) < width}
            codes = [self.names.code(place) for place in places]
            if width == EXACT_NS or (short.is_empty() and not codes):
                break
            width //= 100
            again = spans.filter(pl.col("place").is_in([*codes, *short["place"].to_list()]))
            streams = again.select(silence.STREAM)
            told = over_sends.Again(self.names, (), pl.DataFrame(schema=_LATE), {}, streams, width)
            narrow = self.job.sends_again(told)["ticks"]
            ticks = pl.concat([ticks.join(streams, on=list(silence.STREAM), how="anti"), narrow])
        account.quiet = quiet
        account.gaps = [Silence(*row) for row in found.select(Silence._fields).iter_rows()]

    def _write(self, placed: Sequence[by_place.Placed], sums: Tables) -> None:
        folder = self.given.evidence.folder.analysis
        windows = pl.concat([part.windows for part in placed])
        write(losses.windows_table(windows, self.names), str(folder / "windows"), 0)
        write(_rates(sums["rates"]), str(folder / "rates"), 0)
        if not (folder / "lost").exists():
            write(losses.table(placed[0].shown["lost"].clear(), self.names), str(folder / "lost"), 0)
        if self.ledger != "none" and not (folder / "ledger").exists():
            ledger.write_empty(self.names, str(folder / "ledger"), self.ledger)


_LATE = {"producer": pl.Int64, "seq": pl.Int64, "n": pl.Int64, "place": pl.Int64}


def count(
    spark: SparkSession,
    given: Inputs,
    work: Plan | None = None,
    tell: Tell = nobody,
    ledger: LedgerRows = "stretches",
) -> Account:
    """Counts a run folder, and writes its analysis/. `work`: how, if not as is best for its size; `ledger`:
    what that has a row for.

    Raises EvidenceError, AccountingError.
    """
    del tell
    return Count(spark, given, work or plan(given.evidence), ledger).account()


def _least(found: Sequence[pl.DataFrame], by: list[str]) -> list[dict[str, int]]:
    return pl.concat(found).sort(by).head(1).to_dicts()


def _latency(what: int, counts: pl.DataFrame) -> dict[int, Latency]:
    found = latency.percentiles(counts)
    return {} if found is None else {what: Latency(*found)}


def _partitions(given: Inputs, sums: Tables) -> Partitions:
    names, ends, log = given.names, given.ends, sums["log"]
    told = {*given.expected_places, *ends}
    told |= {names.place(code) for table in ("log", "sent") for code in sums[table]["place"].drop_nulls()}
    handed = {names.place(code) for code in sums["handed"]["place"].drop_nulls()}
    complete = {p: p in ends and ends[p][0] == ends[p][1] for p in sorted(p for p in told | handed if p)}
    logged: dict[Place, dict[int, tuple[int, int]]] = {}
    after_last: dict[Place, int] = {}
    for code, epoch, low, high in log.select("place", "epoch", "low", "high").iter_rows():
        place = names.place(code)
        assert place is not None, "what the log has stands somewhere"
        after_last[place] = max(after_last.get(place, 0), high + 1)
        if epoch is not None:
            logged.setdefault(place, {})[epoch] = low, high
    return Partitions(
        complete=complete,
        unread=[place for place, done in complete.items() if not done and place in told],
        logged=logged,
        ends={**after_last, **{place: end for place, (end, _) in ends.items()}},
        log_records=int(log["records"].sum()),
        foreign_records=int(log["foreign"].sum()),
        end_offsets_sum=sum(end for end, _ in ends.values()),
    )


def _reached(given: Inputs, account: Account) -> Iterator[Reached]:
    """The partitions in which acknowledgements after a fault are looked for: where a leader came of it, under
    that one alone.
    """
    for reach in account.reaches:
        for place, election in reach.places.items():
            if reach.fault.effective_ns is None or (reach.elected and election is None):
                continue
            epoch, at_ns = election if reach.elected and election else (None, None)
            by_epoch = epoch is not None and place in account.partitions.logged
            yield Reached(
                reach.fault.id,
                given.names.code(place),
                reach.fault.effective_ns,
                epoch if by_epoch else None,
                at_ns,
            )


def _quiet(
    given: Inputs, account: Account, code: object, ticks: pl.DataFrame, spans: pl.DataFrame
) -> dict[str, int]:
    """By fault: the longest time in ns without an acknowledgement from a partition that it reached."""
    gaps = silence.silences(ticks, spans, ["place"])
    found: dict[str, int] = {}
    for reach in account.reaches:
        since, until = reach.fault.effective_ns, reach.restored_ns or given.ended_ns
        if since is None or not reach.places:
            continue
        codes = [given.names.code(place) for place in reach.places]
        here = gaps.filter(pl.col("place").is_in(codes), pl.col("to_ns") > since, pl.col("from_ns") < until)
        longest = here.select((pl.col("to_ns") - pl.col("from_ns").clip(lower_bound=since)).max()).item()
        if longest is not None:
            found[reach.fault.id] = longest
    return found


def _displaced(row: Mapping[str, object]) -> DisplacedRow:
    cause = row["cause"]
    known = None if cause is None else Circumstances(*(bool(row[name]) for name in losses.KNOWN))
    return DisplacedRow(row["place"], row["producer"], cause, known, row["n"])  # type: ignore[arg-type]


def _reordered(late: pl.DataFrame, differ: pl.Expr, across: Mapping[int, int]) -> Iterator[ReorderedRow]:
    """By producer, and whether its partition changed its leader meanwhile."""
    by = late.with_columns(across=differ).group_by("producer", "across").agg(pl.col("n").sum())
    counts: Counter[tuple[int, bool]] = Counter()
    for producer, over, n in by.iter_rows():
        counts[producer, over] += n
    for producer, n in across.items():
        counts[producer, False] -= n
        counts[producer, True] += n
    for (producer, over), n in sorted(counts.items()):
        if n:
            yield ReorderedRow(producer, over, n)


def _rates(found: pl.DataFrame) -> pl.DataFrame:
    names = ("attempted", "acked", "failed", "unknown", "delivered")
    return (
        found.group_by("second")
        .agg(pl.col("times").filter(pl.col("what") == name).sum().alias(name) for name in names)
        .sort("second")
    )
