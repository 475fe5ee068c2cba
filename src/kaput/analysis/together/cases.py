"""Cases of anomalies: counted, and the first ones shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from kaput.analysis import examples
from kaput.analysis.account import Account
from kaput.analysis.names import Names

_BY = {"phantom": ["place", "offset", "producer", "seq"]}
_MESSAGES = ("lost", "duplicate", "recovered", "ghost", "unseen")  # shown by producer and seq


def add(
    counts: pl.DataFrame,
    shown: Sequence[Mapping[str, pl.DataFrame]],
    by: Sequence[str],
    account: Account,
    names: Names,
) -> None:
    """Adds what tasks have counted and `shown` to the account; but for _MESSAGES in the order `by`."""
    for name, group, flag, n in counts.iter_rows():
        account.cases[name, group, flag] += n
    for name in shown[0]:
        every = pl.concat([part[name] for part in shown], how="diagonal_relaxed")
        order = ["producer", "seq"] if name in _MESSAGES else _BY.get(name, by)
        cases = examples.first(every, [column for column in order if column in every.columns])
        account.examples += examples.as_cases(name, cases, names)
