"""The words that a report explains on hover, in the text of docs/GLOSSARY.md (a test holds them
together)."""

from __future__ import annotations

GLOSSARY = {
    "acked": (
        "the client was informed that the message is written. With acks=0 that is the client's own claim"
    ),
    "affected": (
        "attempts between a fault's effective time and the new leader's first acknowledgement, on the "
        "partitions that the fault hit, that were lost, failed, unknown, or acknowledged only after the "
        "election"
    ),
    "backlog_drained_ms": (
        "effective time to the first sample in which no group lags more than the most that it had lagged "
        "before the fault, after one in which a group did; null if none did"
    ),
    "commit-ahead": (
        "a group committed an offset while a stored record below it, at or after the offset where the "
        "group began in that partition, had not been delivered to it. It began where its first assignment"
        " says so, else at its first delivery; a group that does not read from the start and was "
        'delivered nothing there: see "where a late group begins". So the position that a client is given'
        " and commits by itself is not ahead"
    ),
    "corrupt": "a record whose checksum does not match",
    "drain": "reading every partition to its end with a fresh reader, after the cluster has come to rest",
    "duplicate": "a message stored more than once",
    "effective": "the moment a fault took effect: the process is gone or stopped, or was signalled to stop",
    "election_ms": "effective time to the first leader event that moves a partition off the target",
    "failed": "definitely not written; anything less certain is `unknown`",
    "fate": "outcome x times stored x, for each group, times delivered; every message has exactly one",
    "first_ack_after_ms": "effective time to the new leader's first acknowledgement",
    "first_delivery_after_ms": (
        "effective time to the first delivery, to any group, of a message that the new leader took"
    ),
    "ghost": "a message that failed, yet is stored",
    "high-watermark arithmetic": (
        "acknowledged minus end offsets: hides a loss behind a stored but unacknowledged message"
    ),
    "inconsistent-offset": (
        "one topic-partition-offset with more than one identity among acknowledgements, log and deliveries"
    ),
    "isr_restored_ms": "heal to the full in-sync replica set",
    "lag": (
        "what a group had not committed: log end offset minus committed offset (where it had committed "
        "nothing: minus 0, or where a late group began; an offset of -1 is nothing committed), added up "
        "over its partitions. `final` from the drain's end offsets and the last commits on record, null "
        "where an end offset or every commit is missing; `max` the greatest of the samples, null without "
        "any. A sample has the partitions whose leaders answered: `max` may have been more"
    ),
    "loss window": "first to last acknowledgement of a lost message of one fault",
    "lost": (
        "acknowledged, stored nowhere, its partition read to the end; a message of a transaction: one "
        "that was committed, too"
    ),
    "partition table": (
        "who led each partition, under which epoch, with which replicas and ISR: `before` the first fault"
        " took hold, `during` (just before the last heal, when everything that the faults did has been "
        "done), and `after`, at the end of the run. From the cluster's own events; `replicas` as the "
        "scenario assigns them, else every broker that was ever in the ISR"
    ),
    "permitted": "what the configuration does not promise to prevent; violations are count minus permitted",
    "phantom": "an intact record of this run with an identity that was never sent",
    "rebalance": (
        "in a group, changes of owner that follow one another within 1 s, or across which some partition "
        "(of those that the group had been assigned by then) has no owner; from the first to the last of "
        "them. An assignment to a member that has the partition already is no change. `revoked`, `lost`, "
        "`left` and `killed` take away, `assigned` gives; the first rebalance is that in which partitions"
        " get their first owners, and so is what follows when a topic is resized. What begins after the "
        "group's last delivery with members giving up or leaving, and after which no member joins or is "
        "killed, is the group's end and no rebalance, nor a part of one that was over, however short "
        "before. Its `members` are those that had joined or been assigned anything, and had neither left "
        "nor been killed, a second after its last change, or when the group's end began"
    ),
    "recovered": "outcome unknown, yet stored: no error",
    "redelivered": (
        "one topic-partition-offset delivered to a group more than once; of a member: those of them that "
        "were delivered to it, so that one counts for each member that got it"
    ),
    "reordered": (
        "among first stored copies of a producer's messages in a partition: a seq below the greatest "
        "before it"
    ),
    "stored": (
        "found by the drain's reader, `0`, `1` or `n` times. In a topic with transactions that is a "
        "reader with `read_committed`: records that are not visible are in the log, and no copies of a "
        "message"
    ),
    "trigger": (
        "why a rebalance began: the members that were killed, left (up to a minute before it) or joined "
        "(up to a second before it): by the last such event until it began, else the first one within it."
        " Else the members that had lost all of their partitions before it began and are assigned some in"
        " it (they came back). Else the fault that took hold or ended last in the minute before it (one "
        "of brokers, of a topic that the group had been assigned, or of its own members). Else the broker"
        " that stopped last in that minute. Else the members that lost partitions in it. Else `unknown`. "
        "What happened within a second of the rebalance before belongs to that one"
    ),
    "stuck": (
        "messages that a group waited for until a fault of brokers was healed: acknowledged at least 5 s "
        "before the heal, at offsets that the group had not committed at the heal, and in a late group "
        "not stored before it began. Counted as messages of the run, so neither what was in the topic "
        "before nor control records. By the producers' acknowledgements and the members' own commits; a "
        "group that goes on reading has none"
    ),
    "two_leaders_ms": "from an election to the deposed leader's last acknowledgement",
    "unavailable_ms": (
        "longest time without an acknowledgement for a partition under load, from the effective time to "
        "the end of recovery"
    ),
    "unknown": "no definite outcome: timeouts, purged messages, anything retried and then failed",
    "unowned_partition_seconds": (
        "of a rebalance: for each partition the time from when its last owner gave it up, lost it, left "
        "or was killed, to its next assignment, added up. A partition's time before its first owner does "
        "not count; one that never had an owner again had no owner until the end of the run"
    ),
    "unseen": (
        "stored, but never delivered to a group whose drain finished. Judged on the topics that it reads:"
        " those of the scenario, by name or by pattern (`^...`); of a group that the scenario does not "
        "have, those that its assignments, commits and outputs name (an output's topic is not its input),"
        " or if there are none, those that it was delivered records of. See stored too early"
    ),
}
