"""Messages kept by stores: delivered later, waiting or lost, by store and in total."""

from __future__ import annotations

from kaput.core import plural
from kaput.evidence.findings_parts import KeptFates, KeptFindings
from kaput.report.document import NOTHING, Block, Bullets, Cell, Section, Table, Term
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
    rows = [_row(f"{one.store} ({one.kind or 'kind unknown'})", one) for one in kept.stores]
    if len(rows) != 1:
        rows.append(_row("all messages", kept))
    return Table(
        [
            "store",
            Term("kept"),
            "delivered later",
            "waiting there",
            Term("lost", "lost-in-store"),
            "unclear",
            "median time",
            "longest",
        ],
        rows,
    )


def _row(name: str, one: KeptFates) -> list[str | Cell]:
    return [
        name,
        f"{one.kept:,}",
        f"{one.delivered_later:,}",
        f"{one.waiting:,}",
        Cell(f"{one.lost_in_store:,}", bad=one.lost_in_store > 0),
        f"{one.unclear:,}",
        _seconds(one.kept_for_p50_s),
        _seconds(one.kept_for_max_s),
    ]


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:,.1f} s"


def _sentences(kept: KeptFindings) -> list[str]:
    """Facts that the table does not show."""
    not_read = [one.store for one in kept.stores if not one.read]
    found = [
        (kept.in_doubt, "possibly stored by Kafka before a store kept it"),
        (kept.duplicates, "stored more than once"),
        (kept.stored_and_left, "stored and still in a store: another replay would send it again"),
        (kept.lost_after_replay, "lost after Kafka acknowledged the replay"),
        (kept.without_row, "with no row that names its store"),
    ]
    sentences = [f"{plural(n, 'message')} {what}" for n, what in found if n]
    return sentences + [f"store {store} could not be listed at the end" for store in not_read]
