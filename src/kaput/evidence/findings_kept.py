"""Parts of the findings: messages that Kafka did not take and a store kept. The document: findings.py."""

from __future__ import annotations

from kaput.evidence.findings_parts import FindingsPart


class KeptFates(FindingsPart):
    """What became of kept messages: delivered later + waiting + lost in store + unclear = kept."""

    kept: int
    """Messages that a store had and that were not acknowledged to their producer."""
    delivered_later: int
    """Of these, stored in Kafka."""
    waiting: int
    """Not stored, and still in a store."""
    lost_in_store: int
    """Not stored, and in no store any more."""
    unclear: int
    """Not stored as far as is known: their store or their topic was not read to the end."""
    kept_for_p50_s: float | None = None
    """Median time from when the store had it to its acknowledgement to a replay; null without any."""
    kept_for_max_s: float | None = None
    """The longest such time; null without any."""


class KeptAtStore(KeptFates):
    """The same of the messages that one store had; one that two stores had counts for each."""

    store: str
    """The store's name."""
    kind: str | None = None
    """sqlite, failure-log, mongodb, elasticsearch or opensearch; null if unknown."""
    read: bool
    """Whether it could be listed at the end of the run."""


class KeptFindings(KeptFates):
    """Messages that stores kept."""

    lost_after_replay: int = 0
    """Of lost_in_store: Kafka had acknowledged them to a replay, so that the loss is Kafka's."""
    in_doubt: int = 0
    """Kept messages that Kafka may have stored before."""
    duplicates: int = 0
    """Messages that a store had and that are stored more than once."""
    stored_and_left: int = 0
    """Messages that are stored and still in a store: another replay would send them again."""
    without_row: int = 0
    """Kept messages of which no row says which store has them."""
    stores: list[KeptAtStore] = []
    """By store."""

    @property
    def words(self) -> str:
        """`43,211 kept by a store, all delivered later`."""
        counts = {
            "delivered later": self.delivered_later,
            "waiting there": self.waiting,
            "lost in store": self.lost_in_store,
            "unclear": self.unclear,
        }
        found = [(what, n) for what, n in counts.items() if n]
        fates = [f"all {found[0][0]}"] if len(found) == 1 else [f"{n:,} {what}" for what, n in found]
        joined = f" ({', '.join(fates)})" if len(fates) > 1 else f", {fates[0]}" if fates else ""
        return f"{self.kept:,} kept by {'a store' if len(self.stores) < 2 else 'stores'}{joined}"


NOTHING_KEPT = KeptFindings(kept=0, delivered_later=0, waiting=0, lost_in_store=0, unclear=0)
