"""Who led which partition before, during and after the faults, side by side: where these are few."""

from __future__ import annotations

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import PartitionSnapshot
from kaput.report.layout import NOTHING, columns

MOST = 20  # partitions; of more the findings tell, not the screen


def partition_text(findings: Findings) -> Text:
    """A row a partition; nothing where there are too many, or no fault came between."""
    tables = findings.partition_tables
    if len(tables) < 2 or len(tables[0].partitions) > MOST:
        return Text()
    by_moment = [{(p.topic, p.partition): p for p in table.partitions} for table in tables]
    rows = [
        [f"{place[0]}/{place[1]}", _brokers(one.replicas), *(_told(states[place]) for states in by_moment)]
        for place, one in by_moment[0].items()
    ]
    header = ["partition", "replicas", *(f"{table.when}: leader (epoch), ISR" for table in tables)]
    return columns(header, rows, len(header))


def _told(state: PartitionSnapshot) -> str:
    if state.leader is None and state.isr is None:
        return NOTHING
    leader = "nobody" if state.leader == -1 else NOTHING if state.leader is None else str(state.leader)
    epoch = "" if state.leader_epoch is None else f" ({state.leader_epoch})"
    return f"{leader}{epoch}, {NOTHING if state.isr is None else _brokers(state.isr)}"


def _brokers(ids: list[int]) -> str:
    return " ".join(map(str, ids)) or NOTHING
