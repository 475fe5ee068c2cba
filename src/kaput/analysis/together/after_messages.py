"""After the stage of messages: fates, and what the tasks of places are to know of messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from kaput.analysis.account import Account
from kaput.analysis.beginnings import begins
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names, Place
from kaput.analysis.questions import transactions
from kaput.analysis.stages import by_message
from kaput.analysis.stages.by_message import MessageResults
from kaput.analysis.stages.cases import counted
from kaput.analysis.stages.cases import shown as few
from kaput.analysis.stages.for_places import RECORD
from kaput.analysis.stages.job import Tables
from kaput.analysis.stages.pieces import Piece
from kaput.analysis.sums import total
from kaput.analysis.tally import Tally, check
from kaput.analysis.together.percentiles import end_to_end
from kaput.analysis.waiting import stuck_of
from kaput.errors import EvidenceError


class OfMessages(NamedTuple):
    """For the tasks of places: `under` (see by_message), and pieces by part. `sums`: all that were made."""

    under: pl.DataFrame
    pieces: Mapping[int, Sequence[Piece]]
    sums: Tables


def add(found: Iterable[MessageResults], given: Inputs, account: Account) -> OfMessages:
    """Adds the results of messages to the account. Raises EvidenceError, AccountingError."""
    sums, results = _added_up(found)
    _refuse(results, given.names)
    tally = account.tally
    _tally(tally, sums)
    check(tally, given.groups, given.evidence.tables["sends"].rows)
    account.first_acks = dict(sums["first_acks"].drop_nulls().iter_rows())
    account.first_deliveries = dict(sums["first_deliveries"].drop_nulls().iter_rows())
    account.latencies |= end_to_end(sums["end_to_end"], len(given.groups))
    _odd(sums["transactions"], account, given.names)
    _beginnings(sums, given, account)
    account.under = _under(sums["under"], given.names)
    account.add_cases(sums["cases"], [part.shown for part in results], by_message.order, given.names)
    pieces: dict[int, list[Piece]] = {}
    for number, piece in (keyed for part in results for keyed in part.pieces):
        pieces.setdefault(number, []).append(piece)
    return OfMessages(sums["under"], pieces, sums)


def _beginnings(sums: Tables, given: Inputs, account: Account) -> None:
    """From where on groups had anything to read, and what they never saw and never had to."""
    early = sums["too_early"]
    account.too_early = {(group, topic): n for group, topic, unclear, n in early.iter_rows() if not unclear}
    account.maybe_too_early = dict(
        early.filter("unclear").group_by("group").agg(pl.col("n").sum()).iter_rows()
    )
    owed = {
        (group, given.names.located(place)): offset for group, place, offset in sums["owed_from"].iter_rows()
    }
    account.begins = begins(account.beginnings, owed, account.partitions.ends, given.names)
    account.stuck = stuck_of(given, account, sums["stuck"])


def _added_up(found: Iterable[MessageResults]) -> tuple[Tables, list[MessageResults]]:
    """All sums, and the results without theirs, which are many: each is let go when it has been added."""
    rest: list[MessageResults] = []

    def sums() -> Iterator[Tables]:
        for part in found:
            rest.append(replace(part, sums={}))
            yield part.sums

    return total(sums(), by_message.SUMS), rest


def _refuse(results: Sequence[MessageResults], names: Names) -> None:
    """What cannot be counted: rows that are there twice. Raises EvidenceError."""
    for row in _least([part.doubled["sends"] for part in results], ["producer", "seq"]):
        raise EvidenceError(
            f"table sends: message {row['seq']} of producer {row['producer']} has more than one row"
        )
    for row in _least([part.doubled["transactions"] for part in results], ["producer", "seq"]):
        raise EvidenceError(
            f"table transactions: message {row['seq']} of producer {row['producer']} is of more than one"
        )
    for row in _least([part.doubled["outputs"] for part in results], ["producer", "seq"]):
        raise EvidenceError(
            f"table outputs: message {row['seq']} of producer {row['producer']} has {row['times']} rows "
            "with the same input"
        )
    for row in _least([part.doubled["log"] for part in results], RECORD):
        topic, partition = names.located(row["place"])
        raise EvidenceError(
            f"table log: {topic}/{partition} offset {row['offset']} is there {row['times']} times "
            f"with the same message (producer {row['producer']}, seq {row['seq']})"
        )


def _odd(found: pl.DataFrame, account: Account, names: Names) -> None:
    """The transactions that are torn, or lost."""
    odd = transactions.odd(found)
    shown = [{name: few(rows, transactions.order(name)) for name, rows in odd.items()}]
    account.add_cases(counted(odd), shown, transactions.order, names)
    account.broken = [
        (name, producer, first_seq)
        for name, rows in odd.items()
        for producer, first_seq in rows.filter("flag").select("producer", "first_seq").iter_rows()
    ]


def _least(found: Sequence[pl.DataFrame], by: list[str]) -> list[dict[str, int]]:
    return pl.concat(found).sort(by).head(1).to_dicts()


def _tally(tally: Tally, found: Tables) -> None:
    for producer, outcome, stored, n, copies in found["fates"].iter_rows():
        tally.fates[outcome, stored] += n
        if stored == "n":
            tally.duplicates[producer] += n
            tally.extra_copies += copies - n
    for group, outcome, stored, delivered, n in found["group_fates"].iter_rows():
        tally.group_fates[group, outcome, stored, delivered] += n


def _under(under: pl.DataFrame, names: Names) -> dict[tuple[Place, int], dict[int, int]]:
    first = under.group_by("place", "epoch", "producer").agg(pl.col("first_ns").min())
    found: dict[tuple[Place, int], dict[int, int]] = defaultdict(dict)
    for code, epoch, producer, at_ns in first.iter_rows():
        found[names.located(code), epoch][producer] = at_ns
    return dict(found)
