"""Whether the account balances: whatever was counted in two places must be equal, or this program is broken.

A loss is counted by its fate (stored 0 times) and once more by its cause; only the causes are ruled. One that
was dropped between the two would be a loss that nobody holds against the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaput.analysis.account import Account
from kaput.errors import AccountingError


def check(account: Account, groups: Sequence[str]) -> None:
    """Raises AccountingError, naming every two counts that differ."""
    wrong = [
        f"{what} {one:,} by {how_one} and {other:,} by {how_other}"
        for what, how_one, one, how_other, other in _pairs(account, groups)
        if one != other
    ]
    wrong += [
        f"{what} {part:,} of {whole:,}" for what, part, whole in _parts(account, groups) if part > whole
    ]
    if wrong:
        raise AccountingError(f"the account does not balance: {'; '.join(wrong)}")


def _pairs(account: Account, groups: Sequence[str]) -> Iterator[tuple[str, str, int, str, int]]:
    """(what, how it was counted first, count, how it was counted again, count)."""
    tally, fates = account.tally, account.tally.fates
    yield "lost", "fate", account.lost, "cause", sum(row.messages for row in account.losses)
    for name, outcomes, stored in (
        ("duplicate", None, ("n",)),
        ("recovered", "unknown", ("1", "n")),
        ("ghost", "failed", ("1", "n")),
    ):
        by_fate = sum(n for (o, s), n in fates.items() if s in stored and outcomes in (None, o))
        yield name, "fate", by_fate, "case", account.counted(name)
    yield "duplicate", "fate", tally.stored("n"), "producer", sum(tally.duplicates.values())
    places = sum(row.places for row in account.displaced)
    yield "inconsistent-offset", "case", account.counted("inconsistent-offset"), "cause", places
    moved = sum(row.messages for row in account.reordered)
    yield "reordered", "case", account.counted("reordered"), "producer", moved
    for index, group in enumerate(groups):
        gone = sum(row.messages for row in account.vanished if row.group == index)
        yield f"vanished of group {group}", "case", account.counted("vanished", index), "cause", gone


def _parts(account: Account, groups: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """(what, count, that of which it is a part)."""
    for index, group in enumerate(groups):
        too_early = sum(n for (g, _), n in account.too_early.items() if g == index)
        excused = {"unseen": too_early + account.maybe_too_early.get(index, 0)}
        for row in account.consequences:
            if row.group == index:
                excused[row.name] = excused.get(row.name, 0) + row.n
        for lost_of, _, n in account.unprocessed:
            if lost_of == index:
                excused["unprocessed"] = excused.get("unprocessed", 0) + n
        for name, n in excused.items():
            yield f"{name} of group {group} that is excused:", n, account.counted(name, index)
