"""Messages kept by stores: delivered later, waiting or lost, by store and in total."""

from __future__ import annotations

from kaput.core import counted
from kaput.evidence.findings_parts import KeptFates, KeptFindings
from kaput.report.document import Block, Bullets, Section, Table, Term, bad_if_any, seconds, table_of
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """The section; None without stores."""
    kept = run.findings.kept
    if kept is None:
        return None
    blocks: list[Block] = [_table(kept)]
    if sentences := list(_sentences(kept)):
        blocks.append(Bullets(sentences))
    return Section((Term("Kept", "kept"), " by stores"), blocks, key="kept")


def _table(kept: KeptFindings) -> Table:
    """A row for each store; for several also the total, since a message may be in two stores."""
    rows: list[tuple[str, KeptFates]] = [(f"{s.store} ({s.kind or 'kind unknown'})", s) for s in kept.stores]
    if len(rows) != 1:
        rows.append(("all messages", kept))
    return table_of(
        rows,
        {
            "store": lambda row: row[0],
            Term("kept"): lambda row: row[1].kept,
            "delivered later": lambda row: row[1].delivered_later,
            "waiting there": lambda row: row[1].waiting,
            Term("lost", "lost-in-store"): lambda row: bad_if_any(row[1].lost_in_store),
            "unclear": lambda row: row[1].unclear,
            "median time": lambda row: seconds(row[1].kept_for_p50_s),
            "longest": lambda row: seconds(row[1].kept_for_max_s),
        },
    )


def _sentences(kept: KeptFindings) -> list[str]:
    """Facts that the table does not show."""
    not_read = [one.store for one in kept.stores if not one.read]
    found = [
        (kept.in_doubt, "kept in doubt: {their|its} client did not know whether Kafka had stored {them|it}"),
        (kept.duplicates, "stored more than once"),
        (kept.stored_and_left, "stored and still in a store: another replay would send {them|it} again"),
        (kept.lost_after_replay, "lost after Kafka acknowledged the replay"),
        (kept.without_row, "with no row that names {their|its} store"),
    ]
    sentences = [counted(n, f"{{messages|message}} {what}") for n, what in found if n]
    return sentences + [f"store {store} could not be listed at the end" for store in not_read]
