"""The tables of docs/IDEMPOTENCE.md, from the figures of idempotence.py. Nothing is measured here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import idempotence_crashes
from dedup_scoring import FILTERS

PAGE = Path(__file__).parents[1] / "docs" / "IDEMPOTENCE.md"
STORES = {
    "none": "no filter",
    "memory-ordered": "(1) every id in memory (sortedcontainers), ascending ids",
    "memory-random": "(1) every id in memory, random ids",
    "disk-ordered": "(1) every id on disk (SQLite), ascending ids",
    "disk-random": "(1) every id on disk, random ids",
    "disk-uuid4": "(1) every id on disk, random 16-byte ids (UUID 4)",
    "marks-memory": "(2) high-water marks in memory",
    "marks-disk": "(2) high-water marks on disk",
    "marks-disk-many": "(2) the same, 100,000 producers: 300,000 marks",
    "one-producer-disk": "(3) one producer per partition, on disk",
}
SCENARIOS = {
    "idempotence-compare-off": "plain producer with retries",
    "idempotence-compare-on": "idempotent producer",
    "idempotence-compare-transactions": "transactions of 100 messages",
}
Rows = Iterable[Sequence[object]]


def table(head: Sequence[str], rows: Rows) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def mistakes(found: Sequence[int]) -> str:
    """`+3 −5`: three duplicates passed, five messages wrongly dropped."""
    passed, dropped = found
    return " ".join([f"+{passed:,}"] * (passed > 0) + [f"−{dropped:,}"] * (dropped > 0)) or "0"


def traffic_table(found: dict[str, Any]) -> str:
    """A row for each kind of trouble."""
    rows = [[kind, *(mistakes(scores[name]) for name in FILTERS)] for kind, scores in found.items()]
    return table(["trouble", *FILTERS], rows)


def crashes_table(found: list[dict[str, Any]]) -> str:
    """A row for each place of the mark, with what all filters have in common, or each of them."""
    rows = []
    for where in idempotence_crashes.WHERE:
        of = [one for one in found if one["where"] == where]
        scores = [{mistakes(one["score"]) for one in of if one["batch"] == batch} for batch in (1, 100)]
        rows.append([where, *(" or ".join(sorted(each)) for each in scores)])
    return table(["order", "a commit for each record", "a commit for 100 records"], rows)


def stores_table(found: list[dict[str, Any]]) -> str:
    """A row for each measurement."""
    rows = []
    for one in sorted(found, key=lambda one: (one["count"], list(STORES).index(one["way"]), one["batch"])):
        count = one["count"]
        sizes = [_per(one[f"{kind}_bytes"], count) for kind in ("memory", "disk", "written")]
        restart = f"{one['restart_s'] * 1000:,.1f} ms, {one['restart_read_bytes'] / 1000:,.0f} kB"
        forgets = one["way"].startswith("memory") or one["way"] == "marks-memory"
        restart = "" if one["way"] == "none" else "forgets all" if forgets else restart
        head = [STORES[one["way"]], f"{count:,}", f"{one['batch']:,}", f"{one['cpu_s'] / count * 1e6:.1f}"]
        rows.append([*head, *sizes, restart])
    head = ["way", "messages", "per commit", "CPU, µs per message", "memory, bytes per message"]
    return table(
        [*head, "disk, bytes per message", "written, bytes per message", "restart: time, read"], rows
    )


def speed_table(found: dict[str, Any]) -> str:
    """A row for each way, beside no filter."""
    rows = [
        [STORES[way], f"{one['per_s']:,.0f}", f"{one['ratio']:.2f}"] for way, one in found["ways"].items()
    ]
    return table(["way", f"messages/s, {found['count']:,} of them", "no filter = 1"], rows)


def _per(total: int, count: int) -> str:
    each = total / count
    return f"{each:,.1f}" if each >= 0.05 else f"{total / 1000:,.0f} kB in all" if total else "0"


def spark_tables(found: dict[str, Any]) -> str:
    """Mistakes of each query, then costs."""
    rows = [
        [one["kind"], one["query"], mistakes(one["appended"]), mistakes(one["replaced"])]
        for one in found["mistakes"]
    ]
    costs = [
        [
            one["query"], f"{one['records']:,}", f"{0.9 * one['records'] / one['seconds']:,.0f}",
            f"{one['restart_s']:.1f}", f"{one['checkpoint_bytes'] / 1e6:,.1f} MB",
        ]
        for one in found["costs"]
    ]  # fmt: skip
    head = ["trouble", "query", "a sink that appends", "a sink that replaces a repeated batch"]
    cost_head = ["query", "records", "records/s", "restart and one micro-batch, s", "state in the checkpoint"]
    return table(head, rows) + "\n\n" + table(cost_head, costs)


def kafka_tables(found: dict[str, Any]) -> str:
    """Scenarios, the plain producer's log through the filters, then producers that were killed."""
    scenarios = [
        [f"`{name}`", what, *(f"{found['scenarios'][name][key]:,}" for key in ("sent", "duplicate", "lost"))]
        for name, what in SCENARIOS.items()
    ]
    names = {"off": "plain", "on": "idempotent", "transactions": "transactions, position read from the topic"}
    killed = [
        [
            names[one["way"]], one["kills"], f"{one['duplicates']:,}", one["missing"],
            *(mistakes(score) for score in one["after_filters"].values()),
            f"{found['ratios'][one['way']]:.2f}",
        ]
        for one in found["killed"]
    ]  # fmt: skip
    filtered = ", ".join(f"{name} {mistakes(score)}" for name, score in found["filtered"].items())
    filters = list(found["killed"][0]["after_filters"])
    head = [
        "producer",
        "killed",
        "duplicates in the topic",
        "missing",
        *(f"after {name}" for name in filters),
    ]
    return (
        table(["scenario", "producer", "sent", "stored more than once", "lost"], scenarios)
        + f"\n\nThe log of `idempotence-compare-off` through the filters: {filtered}.\n\n"
        + table([*head, "speed, plain = 1"], killed)
    )


TABLES = {
    "traffic": traffic_table,
    "crashes": crashes_table,
    "stores": stores_table,
    "speed": speed_table,
    "spark": spark_tables,
    "kafka": kafka_tables,
}


def write_page(found: dict[str, Any]) -> None:
    """Fills in what is between `<!-- begin: NAME -->` and `<!-- end: NAME -->`."""
    text = PAGE.read_text(encoding="utf-8")
    for name in TABLES.keys() & found.keys():
        part = f"Measured {found[name]['machine']}.\n\n{TABLES[name](found[name]['figures'])}"
        pattern = rf"(<!-- begin: {name} [^\n]*-->\n).*?(<!-- end: {name} -->)"
        text, count = re.subn(
            pattern, lambda m, part=part: f"{m[1]}\n{part}\n\n{m[2]}", text, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"{PAGE}: {count} places for {name}, not one")
    PAGE.write_text(text, encoding="utf-8")
