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


class Anomaly(NamedTuple):
    """An anomaly. `what`: a description; `by`: whether it is counted once for the run, for each group, or
    once for the run and also by the topic, producer or mirror of each case; `missing`: what a message was not
    found in, so that it proves nothing if that was not read to the end.
    """

    what: str
    by: Literal["run", "group"] | Part = "run"
    missing: Missing | None = None


ANOMALIES: Mapping[str, Anomaly] = {
    "lost": Anomaly("Acknowledged, stored nowhere.", missing="log"),
    "removed": Anomaly("Acknowledged, and removed as configured."),
    "duplicate": Anomaly("Stored more than once."),
    "recovered": Anomaly("Outcome unknown, yet stored."),
    "ghost": Anomaly("Failed, yet stored."),
    "phantom": Anomaly("Stored, never sent."),
    "corrupt": Anomaly("Records with a wrong checksum."),
    "reordered": Anomaly("Stored after a later message of the same producer."),
    "inconsistent-offset": Anomaly("One offset with two identities."),
    "lost-in-store": Anomaly("Kept by a store, and no longer in the log or in any store.", missing="store"),
    "torn-transaction": Anomaly("Transactions of which a part is stored, and a part not."),
    "lost-commit": Anomaly("Committed transactions with nothing visible."),
    "hanging-transaction": Anomaly(
        "Last stable offsets that stalled for longer than a transaction may stay open."
    ),
    "unmirrored": Anomaly("Acknowledged in a mirror's source, and not in its target."),
    "mirrored-twice": Anomaly("More often in a mirror's target than in its source."),
    "mirror-reordered": Anomaly("Mirrored after a later record of the same partition."),
    "looped": Anomaly("Brought back by mirrors to the cluster that they were sent to."),
    "unseen": Anomaly("Stored, never delivered.", by="group", missing="group"),
    "redelivered": Anomaly("Delivered more than once.", by="group"),
    "poll-skip": Anomaly("Deliveries that jump over stored records.", by="group"),
    "nonmonotonic-poll": Anomaly("Deliveries that step back.", by="group"),
    "commit-ahead": Anomaly("Commits past what was delivered.", by="group"),
    "unassigned-delivery": Anomaly("Deliveries from partitions that the member did not own.", by="group"),
    "vanished": Anomaly("Delivered, stored nowhere.", by="group", missing="log"),
    "translated-ahead": Anomaly(
        "Below the position of a group that was moved, and never delivered to it.", by="group"
    ),
    "translated-behind": Anomaly(
        "Delivered to a group before it was moved to a position at or below them.", by="group"
    ),
    "double-accept": Anomaly("Records that a share group accepted more than once.", by="group"),
    "delivered-after-accept": Anomaly(
        "Records that a share group delivered after an accept of them was confirmed.", by="group"
    ),
    "over-delivered": Anomaly("Records that a share group delivered more often than its limit.", by="group"),
    "lost-release": Anomaly(
        "Records that came back to a share group and were never delivered again.", by="group"
    ),
    "aborted-read": Anomaly(
        "Messages of transactions that never committed, delivered with read_committed.", by="group"
    ),
    "processed-twice": Anomaly("Inputs of a pipe with more than one output.", by="group"),
    "unprocessed": Anomaly("Inputs of a pipe without an output.", by="group", missing="group"),
}
GROUP_ANOMALIES = {name: one for name, one in ANOMALIES.items() if one.by == "group"}
RUN_ANOMALIES = {name: one for name, one in ANOMALIES.items() if name not in GROUP_ANOMALIES}


def attribute(name: str) -> str:
    """The Python attribute for an anomaly."""
    return name.replace("-", "_")
