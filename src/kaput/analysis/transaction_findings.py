"""The findings of transactions: how many there were, and for how long they held the last stable offset."""

from __future__ import annotations

from kaput.analysis.account import Account
from kaput.analysis.inputs import Inputs
from kaput.analysis.questions.standstills import Standstill, find
from kaput.evidence.findings_parts import TransactionFindings
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES


def transactions(given: Inputs, account: Account) -> TransactionFindings | None:
    """None where no evidence tells of any."""
    longest = _longest(given)
    if longest is None and not account.transactions:
        return None
    counts = dict.fromkeys(TRANSACTION_OUTCOMES, 0)
    for (_, state), (n, _) in account.transactions.items():
        counts[TRANSACTION_OUTCOMES[state]] += n
    return TransactionFindings(
        **counts,
        messages=sum(messages for _, messages in account.transactions.values()),
        longest_standstill_ms=longest.ns / 1e6 if longest else None,
        standstill_topic=longest.place[0] if longest else None,
        standstill_partition=longest.place[1] if longest else None,
    )


def standstill_s(given: Inputs) -> int | None:
    """The longest standstill in whole seconds; None where there was none."""
    longest = _longest(given)
    return longest.ns // 1_000_000_000 if longest else None


def _longest(given: Inputs) -> Standstill | None:
    return max(find(given.samples), key=lambda one: one.ns, default=None)
