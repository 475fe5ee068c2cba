"""Cases of anomalies: counted, and the first ones shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from kaput.analysis import examples
from kaput.analysis.account import Account
from kaput.analysis.names import Names


def add(
    counts: pl.DataFrame,
    shown: Sequence[Mapping[str, pl.DataFrame]],
    order: Callable[[str], Sequence[str]],
    account: Account,
    names: Names,
) -> None:
    """Adds what tasks have counted and `shown` to the account. `order`: how each name's are ordered."""
    for name, group, flag, n in counts.iter_rows():
        account.cases[name, group, flag] += n
    for name in shown[0]:
        every = pl.concat([part[name] for part in shown], how="diagonal_relaxed")
        cases = examples.first(every, [column for column in order(name) if column in every.columns])
        account.examples += examples.as_cases(name, cases, names)
