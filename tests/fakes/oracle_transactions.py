"""What became of transactions and of pipes' inputs, in plain Python: the definitions of docs/GLOSSARY.md."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fakes.histories import MS

if TYPE_CHECKING:
    from fakes.oracle import Oracle

Row = dict[str, Any]
Spot = tuple[str, int, int]
_TIMEOUT_NS = 60_000 * MS


def visible(record: Row) -> bool:
    """Whether a reader with read_committed is given it; where the record does not say, it is."""
    return record.get("visible") is not False


class Transactions:
    """The transactions of a history."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows = oracle, oracle.history.rows

    def outcome(self, send: Row) -> str | None:
        """Of the message's transaction; None where it is of none."""
        found: str | None
        (found,) = [t["outcome"] for t in self.rows["transactions"] if _has(t, send)] or [None]
        return found

    def uncommitted(self, send: Row) -> bool:
        """Of a message that is not stored, its partition read to its end: whether it was never promised."""
        outcome = self.outcome(send)
        if outcome is None:
            return any(_who(record) == _who(send) for record in self.oracle.own)
        return outcome != "committed"

    def counts(self) -> dict[str, int]:
        """The anomalies of the run."""
        torn, lost = self.odd()
        return {
            "torn-transaction": len(torn),
            "lost-commit": len(lost),
            "hanging-transaction": self._hanging(),
        }

    def odd(self) -> tuple[list[Row], list[Row]]:
        """Those that are torn, and those that were committed and are lost."""
        torn, lost = [], []
        for one in self.rows["transactions"]:
            here = any(self.oracle.copies[_who(s)] for s in self.oracle.sends if _has(one, s))
            if here and (one["outcome"] == "aborted" or self.gone(one)):
                torn.append(one)
            if one["outcome"] == "committed" and self.gone(one) and not here:
                lost.append(one)
        return torn, lost

    def gone(self, transaction: Row) -> list[Row]:
        """The messages that it promised and that are found nowhere."""
        sends = [s for s in self.oracle.sends if _has(transaction, s) and _promised(transaction, s)]
        return [s for s in sends if self.oracle.stored(s) in ("0", "uncommitted")]

    def _hanging(self) -> int:
        at: defaultdict[tuple[str, str], dict[int, dict[str, float]]] = defaultdict(dict)
        for row in self.rows["samples"]:
            labels = dict(row["labels"])
            if row["name"] in ("last_stable_offset", "high_watermark"):
                here = at[labels["topic"], labels["partition"]].setdefault(row["at_ns"], {})
                here[row["name"]] = row["value"]
        return sum(self._of_place(moments) for moments in at.values())

    def _of_place(self, moments: dict[int, dict[str, float]]) -> int:
        """Offsets that hold back what is behind them in two samples too far apart, and in none between them
        is it seen that they don't. One that does not know of anything behind them does not see it.
        """
        line = [
            (ns, both["last_stable_offset"], both["high_watermark"])
            for ns, both in sorted(moments.items())
            if len(both) == 2
        ]
        return len(
            {
                stable
                for one, (from_ns, stable, end) in enumerate(line)
                for two, (to_ns, again, later_end) in enumerate(line)
                if stable == again and stable < end and stable < later_end
                and to_ns - from_ns > _TIMEOUT_NS
                and all(s == stable or w <= stable for _, s, w in line[one:two])
            }
        )  # fmt: skip

    def went_back(self, group: str) -> list[Row]:
        """What takes the place of a seek, of members that have none on record: the begin and the end of each
        transaction that they do not know to be committed.
        """
        seeking = {e["member"] for e in self.rows["group_events"] if _is_seek(e, group)}
        makers = {(o["member"], o["producer"]) for o in self.rows["outputs"] if o["group"] == group}
        return [
            {"kind": "seek", "member": member, "topic": None, "partition": None, "at_ns": t[moment]}
            for member, producer in makers
            if member not in seeking
            for t in self.rows["transactions"]
            if t["producer"] == producer and t["outcome"] != "committed"
            for moment in ("begin_ns", "end_ns")
            if t[moment] is not None
        ]

    def aborted_read(self, group: str) -> int:
        """Messages that a group with read_committed was handed, and should not have been."""
        return len(self.read_too_early(group))

    def read_too_early(self, group: str) -> list[Row]:
        if self.oracle.isolation(group) != "read_committed":
            return []
        handed = self.oracle.delivered(group)
        return [
            s
            for s in self.oracle.sends
            if handed[_who(s)] and (self.outcome(s) == "aborted" or self.oracle.stored(s) == "uncommitted")
        ]

    def pipe(self, group: str) -> dict[str, int]:
        """The anomalies of a pipe."""
        twice, none = self.inputs_made(group)
        return {"processed-twice": len(twice), "unprocessed": len(none)}

    def inputs_made(self, group: str) -> tuple[list[Spot], list[Spot]]:
        """The inputs with several outputs, and those without."""
        made = [o for o in self.rows["outputs"] if o["group"] == group]
        history = self.oracle.history
        topics = history.subscriptions.get(group, [t["name"] for t in history.topics])
        if group not in history.groups:
            topics = [*self.oracle.topics()]
        is_pipe = bool(made) or "produces" in history.blocks.get(group, {})
        inputs = {_spot(r) for r in self.oracle.records if is_pipe and visible(r) and r["topic"] in topics}
        twice, none = [], []
        for spot in inputs:
            states = [self._state(o) for o in made if _spot(o) == spot]
            if states.count("stored") > 1:
                twice.append(spot)
            owed = history.groups.get(group, False) and spot[2] >= self.oracle.begins(group, spot[:2])
            if owed and not set(states) & {"stored", "unread"}:
                none.append(spot)
        return twice, none

    def outputs_of(self, group: str, spot: Spot) -> list[Row]:
        """The sends of what a pipe made of an input."""
        made = [o for o in self.rows["outputs"] if o["group"] == group and _spot(o) == spot]
        return [self.oracle.sent[_who(o)] for o in made if _who(o) in self.oracle.sent]

    def _state(self, output: Row) -> str:
        send = self.oracle.sent.get(_who(output))
        if send is None:
            return "never sent"
        stored = self.oracle.stored(send)
        return "stored" if stored in ("1", "n") else stored


def _has(transaction: Row, send: Row) -> bool:
    return bool(
        transaction["producer"] == send["producer"]
        and transaction["first_seq"] <= send["seq"] <= transaction["last_seq"]
    )


def _promised(transaction: Row, send: Row) -> bool:
    """An acknowledgement is a promise, and so is the commit of whatever did not fail."""
    committed = transaction["outcome"] == "committed"
    return send["outcome"] == "acked" or bool(committed and send["outcome"] == "unknown")


def _is_seek(event: Row, group: str) -> bool:
    return bool(event["group"] == group and event["kind"] == "seek")


def _who(row: Row) -> tuple[int, int]:
    return row["producer"], row["seq"]


def _spot(row: Row) -> Spot:
    return row["topic"], row["partition"], row["offset"]
