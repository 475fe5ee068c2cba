"""The words of a report that are explained on the spot: their text is docs/GLOSSARY.md's (a test holds them
together)."""

from __future__ import annotations

WORDS = {
    "acked": "the client was told that the message is written. With acks=0 that is the client's own claim",
    "affected": (
        "attempts between a fault's effective time and the new leader's first acknowledgement, on the "
        "partitions that the fault hit, that were lost, failed, unknown, or acknowledged only after the "
        "election"
    ),
    "commit-ahead": (
        "a group committed an offset while a stored record below it had not been delivered to it"
    ),
    "corrupt": "a record whose checksum does not match",
    "drain": "reading every partition to its end with a fresh reader, after the cluster has come to rest",
    "duplicate": "a message stored more than once",
    "effective": "the moment a fault took hold: the process is gone, is stopped, or was told to stop",
    "election_ms": "effective time to the first leader event that moves a partition off the target",
    "failed": "definitely not written; anything less certain is `unknown`",
    "fate": "outcome x times stored x, for each group, times delivered; every message has exactly one",
    "first_ack_after_ms": "effective time to the new leader's first acknowledgement",
    "ghost": "a message that failed, yet is stored",
    "high-watermark arithmetic": (
        "acknowledged minus end offsets: hides a loss behind a stored but unacknowledged message"
    ),
    "inconsistent-offset": (
        "one topic-partition-offset with more than one identity among acknowledgements, log and deliveries"
    ),
    "isr_restored_ms": "heal to the full in-sync replica set",
    "loss window": "first to last acknowledgement of a lost message of one fault",
    "lost": "acknowledged, stored nowhere, its partition read to the end",
    "permitted": "what the configuration does not promise to prevent; violations are count minus permitted",
    "phantom": "an intact record of this run with an identity that was never sent",
    "recovered": "outcome unknown, yet stored: no error",
    "redelivered": "one topic-partition-offset delivered to a group more than once",
    "reordered": (
        "among first stored copies of a producer's messages in a partition: a seq below the greatest "
        "before it"
    ),
    "stored": "found by the drain's reader, `0`, `1` or `n` times",
    "two_leaders_ms": "from an election to the deposed leader's last acknowledgement",
    "unavailable_ms": (
        "longest time without an acknowledgement for a partition under load, from the effective time to "
        "the end of recovery"
    ),
    "unknown": "no definite outcome: timeouts, purged messages, anything retried and then failed",
    "unseen": "stored, but never delivered to a group whose drain finished",
}
