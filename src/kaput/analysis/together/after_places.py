"""After the stage of places: the anomalies that show there, and the causes of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from kaput.analysis.account import Account, ConsequenceRow, DisplacedRow, LossRow, VanishedRow
from kaput.analysis.deposed import Deposed
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names
from kaput.analysis.questions.commits import nowhere
from kaput.analysis.questions.consequences import INPUT, LOSS
from kaput.analysis.questions.fault_windows import FaultWindow
from kaput.analysis.questions.losses import KNOWN
from kaput.analysis.questions.standstills import STANDSTILLS, find, longest
from kaput.analysis.stages import by_place, for_places
from kaput.analysis.stages.by_place import PlaceContext, PlaceResults
from kaput.analysis.stages.pieces import Parts, Piece
from kaput.analysis.sums import total
from kaput.analysis.transaction_times import limits
from kaput.verdict.facts import Circumstances


def place_context(
    given: Inputs, account: Account, events: pl.DataFrame, under: pl.DataFrame, count_ns: int
) -> PlaceContext:
    """What the tasks of places work with."""
    return PlaceContext(
        given.names,
        events,
        under,
        account.timeline,
        account.partitions.extents(),
        given.with_acks("0"),
        account.attempted(),
        fault_windows(given, account),
        given.healed,
        str(given.evidence.folder.analysis.resolve() / "lost"),
        _handovers(given, account),
        given.share_groups,
        {index for index, drained in enumerate(given.drained) if drained},
        count_ns,
        {index for index, isolation in enumerate(given.isolations) if isolation == "read_uncommitted"},
        _pipes(given),
        limits(given, {producer for producer, _ in account.transactions}),
        _locks(given),
        _begins(given, account),
        given.with_acks("1"),
    )


def _locks(given: Inputs) -> dict[int, int]:
    """By share group of the scenario, how long a member may hold a record (ns)."""
    scenario = given.scenario
    groups = [group for group in scenario.workload.groups if group.type == "share"] if scenario else []
    return {given.groups.index(g.id): scenario.lock_ms(g) * 1_000_000 for g in groups if scenario}


def _begins(given: Inputs, account: Account) -> pl.DataFrame:
    rows = [(group, given.names.code(place), offset) for (group, place), offset in account.begins.items()]
    return pl.DataFrame(rows, schema=nowhere().schema, orient="row")


def _pipes(given: Inputs) -> dict[int, list[int]]:
    names = given.names
    every = list(range(len(names.topics)))
    return {
        group: every if topics is None else [n for n in every if names.topics[n] in topics]
        for group, topics in given.pipes.items()
    }


def standstills(given: Inputs, timeout_ns: int, parts: Parts) -> dict[int, list[Piece]]:
    """By part, what the tasks of places are to know of last stable offsets that stood still for too long."""
    names = given.names
    rows = [
        (names.code(one.place), one.offset, 1, one.from_ns, one.to_ns)
        for one in longest(find(given.samples))
        if one.ns > timeout_ns and one.place[0] in names.topics
    ]
    found: dict[int, list[Piece]] = {}
    for part, piece in for_places.sent({"standstills": pl.DataFrame(rows, STANDSTILLS, orient="row")}, parts):
        found.setdefault(part, []).append(piece)
    return found


def beside(*tables: Mapping[int, Sequence[Piece]]) -> dict[int, list[Piece]]:
    """The pieces of several by part."""
    parts = {part for table in tables for part in table}
    return {part: [piece for table in tables for piece in table.get(part, ())] for part in parts}


def _handovers(given: Inputs, account: Account) -> pl.DataFrame:
    names = given.names
    rows = [
        (names.groups.index(one.group), names.code(one.place), one.at_ns, one.rebalance)
        for one in account.rebalances.handovers
    ]
    columns = dict.fromkeys(("group", "place", "assigned_ns", "rebalance"), pl.Int64)
    return pl.DataFrame(rows, schema=columns, orient="row").unique()


def fault_windows(given: Inputs, account: Account) -> list[FaultWindow]:
    """Every fault's, as far as they are known by now."""
    elections = {
        reach.fault.id: {
            given.names.code(place): election[1] if election else None
            for place, election in reach.places.items()
        }
        for reach in account.reaches
    }
    return [
        FaultWindow(
            span.fault, span.from_ns, span.to_ns, elections[span.fault], span.loss_from_ns, span.loss_to_ns
        )
        for span in account.spans()
    ]


def add(results: Sequence[PlaceResults], account: Account, names: Names) -> dict[str, int]:
    """Adds the results of places to the account. By fault: how many lost messages it affected."""
    found = total([part.sums for part in results], by_place.SUMS)
    account.add_cases(found["cases"], [part.shown for part in results], by_place.order, names)
    account.unclear = {(name, group): n for name, group, n in found["unclear"].iter_rows()}
    account.losses = [_loss(row) for row in found["losses"].iter_rows(named=True)]
    account.vanished = [
        VanishedRow(**{n: row[n] for n in VanishedRow._fields if n != "known"}, known=_known(row))
        for row in found["vanished"].iter_rows(named=True)
    ]
    account.consequences = [
        ConsequenceRow(**{n: row[n] for n in ConsequenceRow._fields if n != "known"}, known=_known(row))
        for row in found["consequences"].iter_rows(named=True)
    ]
    account.missing = _missing(found["broken"])
    account.unprocessed = _unprocessed(found["without_output"], found["lost_outputs"])
    account.displaced = [_displaced(row) for part in results for row in part.displaced.iter_rows(named=True)]
    account.by_member = {
        (name, group, member): n for name, group, member, n in found["by_member"].drop_nulls().iter_rows()
    }
    account.receivers = {
        (group, member, committed): n
        for group, member, committed, n in found["receivers"].drop_nulls().iter_rows()
    }
    account.redelivered = dict(found["redelivered"].select("rebalance", "n").iter_rows())
    account.first_records = {
        (member, rebalance): at_ns for member, rebalance, at_ns in found["first_records"].iter_rows()
    }
    account.deposed = [
        Deposed(**{**row, "place": names.located(row["place"])})
        for part in results
        for row in part.deposed.iter_rows(named=True)
    ]
    return dict(found["lost_by_fault"].iter_rows())


def _missing(broken: pl.DataFrame) -> dict[tuple[int, int], list[LossRow]]:
    """By producer and first message of a transaction, why messages of it are gone."""
    found: dict[tuple[int, int], list[LossRow]] = {}
    kinds = broken.with_columns(messages="n", fault=None, first_ns=None, last_ns=None)
    for row in kinds.iter_rows(named=True):
        found.setdefault((row["producer"], row["first_seq"]), []).append(_loss(row))
    return found


def _unprocessed(inputs: pl.DataFrame, outputs: pl.DataFrame) -> list[tuple[int, list[LossRow], int]]:
    """Inputs of which every output is lost: by group and the reasons for that, how many."""
    kinds = outputs.select(LOSS).unique().sort(LOSS).with_row_index("kind")
    each = inputs.select(INPUT).join(outputs.join(kinds, on=LOSS), on=INPUT)
    alike = each.group_by(INPUT).agg(pl.col("kind").unique().sort()).group_by("group", "kind").len("times")
    rows = kinds.with_columns(messages=1, fault=None, first_ns=None, last_ns=None).to_dicts()
    why = [_loss(row) for row in rows]
    return [
        (group, [why[kind] for kind in each], n) for group, each, n in alike.sort("group", "kind").iter_rows()
    ]


def _loss(row: Mapping[str, Any]) -> LossRow:
    return LossRow(**{n: row[n] for n in LossRow._fields if n != "known"}, known=_known(row))


def _displaced(row: Mapping[str, Any]) -> DisplacedRow:
    known = None if row["cause"] is None else _known(row)
    return DisplacedRow(row["place"], row["producer"], row["cause"], known, row["n"])


def _known(row: Mapping[str, Any]) -> Circumstances:
    return Circumstances(*(bool(row[name]) for name in KNOWN))
