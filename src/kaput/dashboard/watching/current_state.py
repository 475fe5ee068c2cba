"""The current faults, leaders, ISRs and lags of a run in progress, from its small tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kaput.evidence.schemas import whole

MOST_PLACES = 60  # partitions shown: those that changed last
_MOST_FAULTS = 200
NOT_YET = "injection not finished"  # the proof that the nemesis records before it injects
Row = Mapping[str, Any]


class CurrentState:
    """The latest rows of faults and samples. Rows must be added in the order in which they were written."""

    def __init__(self) -> None:
        self._faults: dict[str, Row] = {}
        self._places: dict[tuple[str, int], tuple[int, Row]] = {}
        self._lags: dict[str, dict[tuple[str, str], int]] = {}
        self.attempted = 0

    def fault(self, row: Row) -> None:
        """Adds a row of `faults`: the last row of each fault is the most complete."""
        self._faults[row["id"]] = row

    def sample(self, row: Row) -> None:
        """Adds a row of `samples`; unknown names are ignored."""
        if not whole(row["value"]):
            return
        labels = dict(row["labels"] or ())
        match row["name"]:
            case "lag":
                place = labels.get("topic", ""), labels.get("partition", "")
                self._lags.setdefault(labels.get("group", ""), {})[place] = int(row["value"])
            case "leader":
                key = labels.get("topic", ""), _number(labels.get("partition"))
                self._places[key] = row["at_ns"], {**labels, "leader": int(row["value"])}
            case "messages_attempted":
                self.attempted = int(row["value"])

    def faults(self, began_ns: int) -> list[dict[str, Any]]:
        """The faults as JSON, with times in seconds since `began_ns`."""
        return [_fault_document(row, began_ns) for row in list(self._faults.values())[-_MOST_FAULTS:]]

    def places(self) -> tuple[list[dict[str, Any]], int]:
        """Leader, epoch and ISR of partitions, by name; and how many partitions are left out."""
        recent = sorted(self._places.items(), key=lambda item: item[1][0], reverse=True)[:MOST_PLACES]
        shown = [_partition_document(topic, number, row) for (topic, number), (_, row) in sorted(recent)]
        return shown, len(self._places) - len(shown)

    def lags(self) -> dict[str, int]:
        """The lag of each group over all its partitions."""
        return {group: sum(found.values()) for group, found in self._lags.items()}


def _fault_document(row: Row, began_ns: int) -> dict[str, Any]:
    effective, healed = row["effective_ns"], row["healed_ns"]
    begin = effective if effective is not None else row["injected_ns"]
    return {
        "id": row["id"],
        "fault": row["fault"],
        "target": row["target"],
        "brokers": list(row["brokers"] or ()),
        "state": state_of(row),
        "from_s": round((begin - began_ns) / 1e9, 3),
        "to_s": None if healed is None else round((healed - began_ns) / 1e9, 3),
        "proof": row["proof"],
    }


def state_of(row: Row) -> str:
    """The state of a fault: healed, being injected, active, or without effect."""
    if row["healed_ns"] is not None:
        return "healed"
    if row["proof"] == NOT_YET:
        return "being injected"
    return "active" if row["bit"] or row["effective_ns"] is not None else "without effect"


def _partition_document(topic: str, number: int, row: Row) -> dict[str, Any]:
    isr = [_number(word) for word in str(row.get("isr", "")).split(",") if word]
    leader = row["leader"]
    return {
        "place": f"{topic}/{number}",
        "leader": leader if leader >= 0 else None,
        "epoch": _number(row.get("leader_epoch")),
        "isr": isr,
    }


def _number(word: str | None) -> int:
    try:
        return int(word or "")
    except ValueError:
        return -1


def rows_of(batches: Iterable[Any]) -> Iterator[Row]:
    """The rows of a small table."""
    for batch in batches:
        yield from batch.to_pylist()
