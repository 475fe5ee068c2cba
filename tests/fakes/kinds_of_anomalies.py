"""Anomalies by what they need to be possible at all."""

from __future__ import annotations

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
# `kaput bench generate` makes no share groups, transactions or mirrors, and topics that remove nothing.
NOT_PLANTED = OF_SHARE_GROUPS | OF_TRANSACTIONS | OF_MIRRORS | OF_SETTINGS
