"""One sentence for each example: what happened to this message, as one engineer would tell another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kaput.analysis.questions.messages import ABORTED
from kaput.evidence.findings import Example
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

Row = Mapping[str, Any]


def example(row: Row) -> Example:
    """A case as an example of the findings."""
    return Example(
        producer=row.get("producer"),
        seq=row.get("seq"),
        topic=row.get("topic"),
        partition=row.get("partition"),
        offset=row.get("offset"),
        story=_STORIES[row["name"]](row),
    )


def clock(at_ns: int | None) -> str:
    """A time of day in UTC, to the millisecond."""
    if at_ns is None:
        return "an unknown time"
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return f"{moment:%H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}"


def _message(row: Row, prefix: str = "") -> str:
    return f"producer {row[prefix + 'producer']}'s message {row[prefix + 'seq']:,}"


def _at(row: Row) -> str:
    if row.get("partition") is None:
        return f"{row['topic']}, partition unknown"
    place = f"{row['topic']}/{row['partition']}"
    return place if row.get("offset") is None else f"{place} offset {row['offset']:,}"


def _lost(row: Row) -> str:
    epoch = f" under epoch {row['ack_epoch']}" if row["ack_epoch"] is not None else ""
    text = f"{_message(row)} was acknowledged at {clock(row['done_ns'])} as {_at(row)}{epoch}"
    if row["cause"] == "acks-0":
        return f"{_message(row)} was sent with acks=0 at {clock(row['attempt_ns'])} and never stored"
    if row["later_epoch"] is not None:
        text += f"; epoch {row['later_epoch']} began there {_later(row)}{_start(row)}".rstrip()
        if row["cause"] == "unclean-election":
            text += " with a leader outside the ISR"
        elif row["cause"] == "leader-restarted":
            text += " under the same leader, which had come back without it"
    holder = row.get("holder")
    if holder:
        return f"{text}, and offset {row['offset']:,} now holds {_message(holder)}"
    return f"{text}, and the log has nothing there now"


def _later(row: Row) -> str:
    if row["later_ns"] is None or row["done_ns"] is None:
        return ""
    ms = (row["later_ns"] - row["done_ns"]) // 1_000_000
    return f"{abs(ms):,} ms {'later' if ms >= 0 else 'earlier'} "


def _start(row: Row) -> str:
    return "" if row["later_start"] is None else f"at offset {row['later_start']:,}"


def _inconsistent(row: Row) -> str:
    return f"{_at(row)} was given to {_message(row)} and to {_message(row, 'other_')}"


def _corrupt(row: Row) -> str:
    return (
        f"the record at {_at(row)} is damaged: its checksum does not match, so nobody can tell whose it was"
    )


def _poll(row: Row) -> str:
    return f"member {row['member']} received {_at(row)} at {clock(row['at_ns'])}"


def _below(row: Row) -> str:
    return "a record below" if row["other_offset"] is None else f"offset {row['other_offset']:,}"


def _outcome(row: Row) -> str:
    return str(TRANSACTION_OUTCOMES[row["state"]])


def _hanging(row: Row) -> str:
    seconds = (row["to_ns"] - row["at_ns"]) / 1e9
    behind = "" if row.get("producer") is None else f", behind {_message(row)}"
    stood = f"the last stable offset stood still at {_at(row)} for {seconds:.1f} s"
    return f"{stood} from {clock(row['at_ns'])} on{behind}"


_STORIES: dict[str, Callable[[Row], str]] = {
    "lost": _lost,
    "duplicate": lambda r: f"{_message(r)} is stored {r['times']:,} times, first as {_at(r)}",
    "recovered": lambda r: (
        f"{_message(r)} was given up by its producer ({r['error'] or 'no error given'}), "
        f"yet is stored as {_at(r)}"
    ),
    "ghost": lambda r: (
        f"{_message(r)} was definitely refused ({r['error'] or 'no error given'}), yet is stored as {_at(r)}"
    ),
    "phantom": lambda r: f"{_at(r)} holds {_message(r)}, which was never sent in this run",
    "corrupt": _corrupt,
    "reordered": lambda r: (
        f"{_message(r)} is at {_at(r)}, behind message {r['other_seq']:,} of the same producer"
    ),
    "inconsistent-offset": _inconsistent,
    "unseen": lambda r: f"{_message(r)} is stored as {_at(r)} and was never delivered to the group",
    "redelivered": lambda r: (
        f"{_at(r)} was delivered {r['times']:,} times"
        + (", the last time after its offset had been committed" if r["flag"] else "")
    ),
    "poll-skip": lambda r: (
        f"{_poll(r)}, right after offset {r['other_offset']:,}, past records stored between"
    ),
    "nonmonotonic-poll": lambda r: f"{_poll(r)}, after offset {r['other_offset']:,} already",
    "commit-ahead": lambda r: (
        f"member {r['member']} committed {_at(r)} at {clock(r['at_ns'])}, "
        f"when {_below(r)} had not been delivered to the group"
    ),
    "unassigned-delivery": lambda r: (
        f"member {r['member']} received {_at(r)} while the partition was not assigned to it"
    ),
    "double-accept": lambda r: (
        f"{_at(r)} was accepted {r['times']:,} times, the first time confirmed at {clock(r['accepted_ns'])}"
    ),
    "delivered-after-accept": lambda r: (
        f"{_poll(r)}, although its accept had been confirmed at {clock(r['accepted_ns'])}"
    ),
    "over-delivered": lambda r: (
        f"{_at(r)} was delivered with delivery count {r['times']:,}, above the limit of {r['limit']:,}"
    ),
    "lost-release": lambda r: (
        f"{_poll(r)} with delivery count {r['times']:,} (the limit is {r['limit']:,}), neither accepted nor "
        "rejected it, and nobody received it again"
    ),
    "torn-transaction": lambda r: (
        f"transaction {r['transaction']:,} of producer {r['producer']} was aborted, yet its message "
        f"{r['seq']:,} is stored"
        if r["state"] == ABORTED
        else f"of transaction {r['transaction']:,} of producer {r['producer']} ({_outcome(r)}) message "
        f"{r['first_here']:,} is stored and message {r['seq']:,} is nowhere"
    ),
    "lost-commit": lambda r: (
        f"transaction {r['transaction']:,} of producer {r['producer']} was committed, and of its messages, "
        f"from {r['seq']:,} on, none is stored"
    ),
    "hanging-transaction": _hanging,
    "aborted-read": lambda r: (
        f"{_message(r)} was delivered to the group ({_at(r)}), though its transaction "
        + ("was aborted" if r["state"] == ABORTED else "never committed")
    ),
    "processed-twice": lambda r: f"{_message(r)}, the input at {_at(r)}, has {r['times']:,} outputs",
    "unprocessed": lambda r: f"{_message(r)}, the input at {_at(r)}, has no output",
    "vanished": lambda r: (
        f"{_message(r)} was delivered as {_at(r)} at {clock(r['at_ns'])}, and is stored nowhere any more"
    ),
}
