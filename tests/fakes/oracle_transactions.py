"""What became of transactions and of pipes' inputs, in plain Python: the definitions of docs/GLOSSARY.md."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fakes.histories import MS

if TYPE_CHECKING:
    from fakes.oracle import Oracle

Row = dict[str, Any]
_TIMEOUT_NS = 60_000 * MS


def visible(record: Row) -> bool:
    """Whether a reader with read_committed is given it; where nobody says, it is."""
    return record.get("visible") is not False


class Transactions:
    """The transactions of a history."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows = oracle, oracle.history.rows

    def outcome(self, send: Row) -> str | None:
        """Of the message's transaction; None where it is of none."""
        (found,) = [t["outcome"] for t in self.rows["transactions"] if _has(t, send)] or [None]
        return found

    def uncommitted(self, send: Row) -> bool:
        """Of a message that is not stored, its partition read to its end: whether nobody promised it."""
        outcome = self.outcome(send)
        if outcome is None:
            return any(_who(record) == _who(send) for record in self.oracle.records)
        return outcome != "committed"

    def counts(self) -> dict[str, int]:
        """The anomalies of the run."""
        torn = lost = 0
        for one in self.rows["transactions"]:
            sends = [s for s in self.oracle.sends if _has(one, s)]
            here = any(self.oracle.copies[_who(s)] for s in sends)
            gone = any(s["outcome"] == "acked" and self._gone(s) for s in sends)
            torn += (here and one["outcome"] == "aborted") or (here and gone)
            lost += one["outcome"] == "committed" and gone and not here
        return {"torn-transaction": torn, "lost-commit": lost, "hanging-transaction": self._hanging()}

    def _gone(self, send: Row) -> bool:
        return self.oracle.stored(send) in ("0", "uncommitted")

    def _hanging(self) -> int:
        at: defaultdict[tuple[str, str], dict[int, dict[str, float]]] = defaultdict(dict)
        for row in self.rows["samples"]:
            labels = dict(row["labels"])
            if row["name"] in ("last_stable_offset", "high_watermark"):
                here = at[labels["topic"], labels["partition"]].setdefault(row["at_ns"], {})
                here[row["name"]] = row["value"]
        return sum(self._of_place(moments) for moments in at.values())

    def _of_place(self, moments: dict[int, dict[str, float]]) -> int:
        """Each longest stretch of moments at which the last stable offset is the same, and held back."""
        found, since, last = 0, None, None
        for at_ns in [*sorted(ns for ns, both in moments.items() if len(both) == 2), None]:
            both = moments[at_ns] if at_ns is not None else {"last_stable_offset": 0, "high_watermark": 0}
            stable = both["last_stable_offset"]
            held = stable < both["high_watermark"]
            if since is not None and (not held or stable != since[1]):
                found += last - since[0] > _TIMEOUT_NS
                since = None
            if held:
                since, last = since or (at_ns, stable), at_ns
        return found

    def aborted_read(self, group: str) -> int:
        """Messages that a group with read_committed was handed, and should not have been."""
        if self.oracle.isolation(group) != "read_committed":
            return 0
        handed = self.oracle.delivered(group)
        return sum(
            handed[_who(s)] > 0 and (self.outcome(s) == "aborted" or self.oracle.stored(s) == "uncommitted")
            for s in self.oracle.sends
        )

    def pipe(self, group: str) -> dict[str, int]:
        """The anomalies of a pipe."""
        made = [o for o in self.rows["outputs"] if o["group"] == group]
        history = self.oracle.history
        topics = history.subscriptions.get(group, [t["name"] for t in history.topics])
        if group not in history.groups:
            topics = [*self.oracle.topics()]
        inputs = (
            {_spot(r) for r in self.oracle.records if visible(r) and r["topic"] in topics} if made else set()
        )
        twice = none = 0
        for spot in inputs:
            states = [self._state(o) for o in made if _spot(o) == spot]
            twice += states.count("stored") > 1
            owed = history.groups.get(group, False) and spot[2] >= self.oracle.begins(group, spot[:2])
            none += owed and not set(states) & {"stored", "unread"}
        return {"processed-twice": twice, "unprocessed": none}

    def _state(self, output: Row) -> str:
        send = self.oracle.sent.get(_who(output))
        if send is None:
            return "never sent"
        stored = self.oracle.stored(send)
        return "stored" if stored in ("1", "n") else stored


def _has(transaction: Row, send: Row) -> bool:
    return (
        transaction["producer"] == send["producer"]
        and transaction["first_seq"] <= send["seq"] <= transaction["last_seq"]
    )


def _who(row: Row) -> tuple[int, int]:
    return row["producer"], row["seq"]


def _spot(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]
