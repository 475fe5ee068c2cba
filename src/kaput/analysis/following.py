"""From the account to the verdict's facts: which anomalies follow from losses, and from which.

A case that follows from one message that is gone comes with its kind. Of a transaction that lacks messages,
and of an input whose outputs are lost, all losses count, and the worst decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kaput.analysis.account import Account, ConsequenceRow, LossRow
from kaput.analysis.inputs import Inputs
from kaput.verdict.facts import Consequence, Loss


def consequences(given: Inputs, account: Account) -> list[Consequence]:
    """All of a run."""
    return [*_of_groups(given, account), *_of_pipes(given, account), *_of_transactions(given, account)]


def _of_groups(given: Inputs, account: Account) -> Iterator[Consequence]:
    for row in account.consequences:
        yield Consequence(row.name, given.groups[row.group], row.n, (_loss(given, row),))


def _of_pipes(given: Inputs, account: Account) -> Iterator[Consequence]:
    """Inputs that had an output, which is lost."""
    for group, why, count in account.unprocessed:
        losses = tuple(_loss(given, row) for row in why)
        yield Consequence("unprocessed", given.groups[group], count, losses)


def _of_transactions(given: Inputs, account: Account) -> Iterator[Consequence]:
    """Transactions with which nothing is wrong but that messages are gone."""
    found: Counter[tuple[str, tuple[Loss, ...]]] = Counter()
    for name, producer, first_seq in account.broken:
        kinds = {_loss(given, row) for row in account.missing.get((producer, first_seq), ())}
        found[name, tuple(sorted(kinds, key=repr))] += 1
    for (name, losses), count in found.items():
        yield Consequence(name, None, count, losses)


def _loss(given: Inputs, row: ConsequenceRow | LossRow) -> Loss:
    return Loss(row.producer, given.names.topics[row.topic], row.cause, 1, row.known)
