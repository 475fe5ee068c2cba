"""Anomalies by what they need to be possible at all."""

from __future__ import annotations

from kaput.bench.plan import EFFECTS
from kaput.scenario.anomalies import ANOMALIES

OF_SHARE_GROUPS = frozenset({"double-accept", "delivered-after-accept", "over-delivered", "lost-release"})
OF_TRANSACTIONS = frozenset(
    {
        *("torn-transaction", "lost-commit", "hanging-transaction"),
        *("aborted-read", "processed-twice", "unprocessed"),  # pipes use transactions
    }
)
OF_MIRRORS = frozenset(
    {
        "unmirrored",
        "mirrored-twice",
        "mirror-reordered",
        "looped",
        "translated-ahead",
        "translated-behind",
    }
)
OF_SETTINGS = frozenset({"removed"})
# By `kaput bench generate`, which makes no share groups, transactions, mirrors or topics that remove records.
PLANTED = frozenset(name for effect in EFFECTS.values() for name in (*effect.run, *effect.group))
NOT_PLANTED = frozenset(ANOMALIES) - PLANTED
