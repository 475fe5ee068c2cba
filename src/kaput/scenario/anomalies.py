"""The table of anomalies: their names, what is counted, and the meaning of those that are never permitted.

docs/GLOSSARY.md defines them, analysis/questions/ finds them. Everything that lists anomalies (a scenario's
`expect`, attributes of findings, verdicts, reports, planted evidence) uses this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Anomaly(NamedTuple):
    """An anomaly. `of`: counted once for the run, or for each group; `what`: a description; `never`: what
    follows the count if it is never permitted (core.py: counted), None if the configuration decides or it is
    not an error (verdict/judge.py).
    """

    of: Literal["run", "group"]
    what: str
    never: str | None = None


ANOMALIES: Mapping[str, Anomaly] = {
    "lost": Anomaly("run", "Acknowledged, stored nowhere."),
    "removed": Anomaly("run", "Acknowledged, and removed as configured."),
    "duplicate": Anomaly("run", "Stored more than once."),
    "recovered": Anomaly("run", "Outcome unknown, yet stored."),
    "ghost": Anomaly(
        "run",
        "Failed, yet stored.",
        "{messages are|message is} stored although {their|its} producer was told that "
        "{they definitely are|it definitely is} not",
    ),
    "phantom": Anomaly(
        "run", "Stored, never sent.", "{records are|record is} stored with an identity that was never sent"
    ),
    "corrupt": Anomaly(
        "run",
        "Records with a wrong checksum.",
        "{records are|record is} damaged: {their|its} checksum does not match",
    ),
    "reordered": Anomaly("run", "Stored after a later message of the same producer."),
    "inconsistent-offset": Anomaly("run", "One offset with two identities."),
    "lost-in-store": Anomaly("run", "Kept by a store, and no longer in the log or in any store."),
    "torn-transaction": Anomaly("run", "Transactions of which a part is stored, and a part not."),
    "lost-commit": Anomaly("run", "Committed transactions with nothing visible."),
    "hanging-transaction": Anomaly(
        "run", "Last stable offsets that stalled for longer than a transaction may stay open."
    ),
    "unmirrored": Anomaly("run", "Acknowledged in a mirror's source, and not in its target."),
    "mirrored-twice": Anomaly("run", "More often in a mirror's target than in its source."),
    "mirror-reordered": Anomaly(
        "run",
        "Mirrored after a later record of the same partition.",
        "{messages are|message is} in a mirror's target behind later ones of the same partition of its "
        "source",
    ),
    "looped": Anomaly("run", "Brought back by mirrors to the cluster that they were sent to."),
    "unseen": Anomaly(
        "group", "Stored, never delivered.", "stored {messages were|message was} never delivered"
    ),
    "redelivered": Anomaly("group", "Delivered more than once."),
    "poll-skip": Anomaly(
        "group",
        "Deliveries that jump over stored records.",
        "{polls|poll} jumped over stored records without a change of assignment",
    ),
    "nonmonotonic-poll": Anomaly(
        "group", "Deliveries that step back.", "{polls|poll} went back without a change of assignment"
    ),
    "commit-ahead": Anomaly(
        "group",
        "Commits past what was delivered.",
        "{commits|commit} passed records that had not been delivered yet",
    ),
    "unassigned-delivery": Anomaly(
        "group",
        "Deliveries from partitions that the member did not own.",
        "{records were|record was} delivered to a member that did not own {their|its} partition",
    ),
    "vanished": Anomaly("group", "Delivered, stored nowhere."),
    "translated-ahead": Anomaly(
        "group",
        "Below the position of a group that was moved, and never delivered to it.",
        "{messages are|message is} below the position at which the group began in another cluster, and it "
        "was never delivered {them|it}",
    ),
    "translated-behind": Anomaly(
        "group", "Delivered to a group before it was moved to a position at or below them."
    ),
    "double-accept": Anomaly(
        "group",
        "Records that a share group accepted more than once.",
        "{records were|record was} accepted more than once, each time confirmed by a broker",
    ),
    "delivered-after-accept": Anomaly(
        "group",
        "Records that a share group delivered after an accept of them was confirmed.",
        "{records were|record was} delivered although a broker had confirmed {their|its} accept",
    ),
    "over-delivered": Anomaly(
        "group",
        "Records that a share group delivered more often than its limit.",
        "{records were|record was} delivered with a delivery count beyond the group's limit",
    ),
    "lost-release": Anomaly(
        "group",
        "Records that came back to a share group and were never delivered again.",
        "{records came back to the group, below its limit, and were|record came back to the group, below its "
        "limit, and was} never delivered again",
    ),
    "aborted-read": Anomaly(
        "group",
        "Messages of transactions that never committed, delivered with read_committed.",
        "{messages of transactions that never committed were|message of a transaction that never committed "
        "was} delivered with read_committed",
    ),
    "processed-twice": Anomaly(
        "group", "Inputs of a pipe with more than one output.", "{inputs have|input has} more than one output"
    ),
    "unprocessed": Anomaly(
        "group", "Inputs of a pipe without an output.", "{inputs have|input has} no output"
    ),
}
RUN_ANOMALIES = {name: one for name, one in ANOMALIES.items() if one.of == "run"}
GROUP_ANOMALIES = {name: one for name, one in ANOMALIES.items() if one.of == "group"}


def attribute(name: str) -> str:
    """The Python attribute for an anomaly."""
    return name.replace("-", "_")
