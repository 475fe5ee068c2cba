"""After the stage of places: the anomalies that show there, and the causes of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from kaput.analysis.account import Account, DisplacedRow, LossRow
from kaput.analysis.deposed import Deposed
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names
from kaput.analysis.questions.fault_windows import Window
from kaput.analysis.questions.losses import KNOWN
from kaput.analysis.stages import by_place
from kaput.analysis.stages.by_place import Placed, Placing
from kaput.analysis.sums import total
from kaput.analysis.together import cases
from kaput.verdict.facts import Circumstances


def placing(given: Inputs, account: Account, events: pl.DataFrame, under: pl.DataFrame) -> Placing:
    """What the tasks of places are told."""
    return Placing(
        given.names,
        events,
        under,
        account.timeline,
        account.partitions.ends,
        given.unacknowledging,
        account.attempted(),
        windows(given, account),
        given.healed,
        str(given.evidence.folder.analysis.resolve() / "lost"),
    )


def windows(given: Inputs, account: Account) -> list[Window]:
    """Every fault's, as far as they are known by now."""
    elections = {
        reach.fault.id: {
            given.names.code(place): election[1] if election else None
            for place, election in reach.places.items()
        }
        for reach in account.reaches
    }
    return [
        Window(
            span.fault, span.from_ns, span.to_ns, elections[span.fault], span.loss_from_ns, span.loss_to_ns
        )
        for span in account.spans()
    ]


def add(placed: Sequence[Placed], account: Account, names: Names) -> dict[str, int]:
    """Adds what was judged of places to the account. By fault: how many lost messages it affected."""
    found = total([part.sums for part in placed], by_place.SUMS)
    cases.add(found["cases"], [part.shown for part in placed], by_place.BY_PLACE, account, names)
    account.losses = [_loss(row) for row in found["losses"].iter_rows(named=True)]
    account.displaced = [_displaced(row) for p in placed for row in p.displaced.iter_rows(named=True)]
    account.deposed = [
        Deposed(**{**row, "place": names.located(row["place"])})
        for p in placed
        for row in p.deposed.iter_rows(named=True)
    ]
    return dict(found["lost_in_windows"].iter_rows())


def _loss(row: Mapping[str, Any]) -> LossRow:
    return LossRow(**{n: row[n] for n in LossRow._fields if n != "known"}, known=_known(row))


def _displaced(row: Mapping[str, Any]) -> DisplacedRow:
    known = None if row["cause"] is None else _known(row)
    return DisplacedRow(row["place"], row["producer"], row["cause"], known, row["n"])


def _known(row: Mapping[str, Any]) -> Circumstances:
    return Circumstances(*(bool(row[name]) for name in KNOWN))
