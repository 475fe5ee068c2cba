"""The ledger in numbers: how many messages met which fate, and whether the sums are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kaput.errors import AccountingError
from kaput.scenario.vocabulary import OUTCOMES


@dataclass
class Tally:
    """Keys: fates (outcome, stored); group_fates (group, outcome, stored, delivered), groups as numbers;
    duplicates: messages by producer.
    """

    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    group_fates: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    duplicates: Counter[int] = field(default_factory=Counter)
    extra_copies: int = 0
    first_attempt_ns: int | None = None
    last_attempt_ns: int | None = None
    last_ack_ns: int | None = None

    def outcome(self, word: str) -> int:
        """How many messages had that outcome."""
        return sum(n for (outcome, _), n in self.fates.items() if outcome == word)

    def stored(self, *labels: str) -> int:
        """How many messages are stored so often."""
        return sum(n for (_, stored), n in self.fates.items() if stored in labels)


def check(found: Tally, groups: Sequence[str], sends_rows: int) -> None:
    """Whether every sum is that of the rows. Raises AccountingError."""
    sums = {"fates": sum(found.fates.values())}
    for index, group in enumerate(groups):
        sums[f"fates of group {group}"] = sum(n for key, n in found.group_fates.items() if key[0] == index)
    sums["outcomes"] = sum(found.outcome(word) for word in OUTCOMES)
    for what, total in sums.items():
        if total != sends_rows:
            raise AccountingError(f"the {what} add up to {total}, but {sends_rows} messages were sent")
