"""The table of anomalies: their names, what is counted, and by what.

docs/GLOSSARY.md defines them; everything else about one is in its file of analysis/questions/: how it is
found, the sentence for a case, how it is ruled. What lists anomalies (a scenario's `expect`, attributes of
findings, verdicts, reports, planted evidence) loops over this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Part = Literal["topic", "producer", "mirror"]
Missing = Literal["log", "group", "store"]
Need = Literal[
    "store", "transaction", "transaction of a producer", "mirror", "group", "share group", "pipe"
]  # fmt: skip


class AnomalyKind(NamedTuple):
    """An anomaly. `what`: a description; `by`: whether it is counted once for the run, for each group, or
    once for the run and also by the topic, producer or mirror of each case; `missing`: what a message was not
    found in, so that it proves nothing if that was not read to the end; `needs`: what a run has to have
    for it (those of groups also need a group).
    """

    what: str
    by: Literal["run", "group"] | Part = "run"
    missing: Missing | None = None
    needs: Need | None = None


ANOMALIES: Mapping[str, AnomalyKind] = {
    "lost": AnomalyKind("Acknowledged, stored nowhere.", missing="log"),
    "removed": AnomalyKind("Acknowledged, and removed as configured."),
    "duplicate": AnomalyKind("Stored more than once."),
    "recovered": AnomalyKind("Outcome unknown, yet stored."),
    "ghost": AnomalyKind("Failed, yet stored."),
    "phantom": AnomalyKind("Stored, never sent."),
    "corrupt": AnomalyKind("Records with a wrong checksum."),
    "reordered": AnomalyKind("Stored after a later message of the same producer."),
    "inconsistent-offset": AnomalyKind("One offset with two identities."),
    "lost-in-store": AnomalyKind(
        "Kept by a store, and no longer in the log or in any store.", missing="store", needs="store"
    ),
    "torn-transaction": AnomalyKind(
        "Transactions of which a part is stored, and a part not.", needs="transaction of a producer"
    ),
    "lost-commit": AnomalyKind(
        "Committed transactions with nothing visible.", needs="transaction of a producer"
    ),
    "hanging-transaction": AnomalyKind(
        "Last stable offsets that stalled for longer than a transaction may stay open.", needs="transaction"
    ),
    "unmirrored": AnomalyKind("Acknowledged in a mirror's source, and not in its target.", needs="mirror"),
    "mirrored-twice": AnomalyKind("More often in a mirror's target than in its source.", needs="mirror"),
    "mirror-reordered": AnomalyKind("Mirrored after a later record of the same partition.", needs="mirror"),
    "looped": AnomalyKind("Brought back by mirrors to the cluster that they were sent to.", needs="mirror"),
    "unseen": AnomalyKind("Stored, never delivered.", by="group", missing="group"),
    "redelivered": AnomalyKind("Delivered more than once.", by="group"),
    "poll-skip": AnomalyKind("Deliveries that jump over stored records.", by="group"),
    "nonmonotonic-poll": AnomalyKind("Deliveries that step back.", by="group"),
    "commit-ahead": AnomalyKind("Commits past what was delivered.", by="group"),
    "unassigned-delivery": AnomalyKind("Deliveries from partitions that the member did not own.", by="group"),
    "vanished": AnomalyKind("Delivered, stored nowhere.", by="group", missing="log"),
    "translated-ahead": AnomalyKind(
        "Below the position of a group that was moved, and never delivered to it.", by="group", needs="mirror"
    ),
    "translated-behind": AnomalyKind(
        "Delivered to a group before it was moved to a position at or below them.", by="group", needs="mirror"
    ),
    "double-accept": AnomalyKind(
        "Records that a share group accepted more than once.", by="group", needs="share group"
    ),
    "delivered-after-accept": AnomalyKind(
        "Records that a share group delivered after an accept of them was confirmed.",
        by="group",
        needs="share group",
    ),
    "over-delivered": AnomalyKind(
        "Records that a share group delivered more often than its limit.", by="group", needs="share group"
    ),
    "lost-release": AnomalyKind(
        "Records that came back to a share group and were never delivered again.",
        by="group",
        needs="share group",
    ),
    "aborted-read": AnomalyKind(
        "Messages of transactions that never committed, delivered with read_committed.",
        by="group",
        needs="transaction of a producer",
    ),
    "processed-twice": AnomalyKind("Inputs of a pipe with more than one output.", by="group", needs="pipe"),
    "unprocessed": AnomalyKind(
        "Inputs of a pipe without an output.", by="group", missing="group", needs="pipe"
    ),
}
GROUP_ANOMALIES = {name: one for name, one in ANOMALIES.items() if one.by == "group"}
RUN_ANOMALIES = {name: one for name, one in ANOMALIES.items() if name not in GROUP_ANOMALIES}


def attribute(name: str) -> str:
    """The Python attribute for an anomaly."""
    return name.replace("-", "_")
