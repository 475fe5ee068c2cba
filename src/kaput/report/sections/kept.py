"""Messages that stores kept: what became of them, in all and by store."""

from __future__ import annotations

from kaput.core import plural
from kaput.evidence.findings_kept import KeptFates, KeptFindings
from kaput.report.document import Block, Bullets, Cell, Section, Table, Term
from kaput.report.formats import NOTHING
from kaput.report.sections.judged_run import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """None where there are no stores."""
    kept = run.findings.kept
    if kept is None:
        return None
    blocks: list[Block] = [_table(kept)]
    if sentences := list(_sentences(kept)):
        blocks.append(Bullets(sentences))
    return Section((Term("Kept", "kept"), " by stores"), blocks, key="kept")


def _table(kept: KeptFindings) -> Table:
    """A row for each store; of several also the sum of messages, of which one may be in two stores."""
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
    """What the table does not say."""
    not_read = [one.store for one in kept.stores if not one.read]
    found = [
        (kept.in_doubt, "that Kafka may have stored before it was kept"),
        (kept.duplicates, "stored more than once"),
        (kept.stored_and_left, "stored and still in a store: another replay would send it again"),
        (kept.lost_after_replay, "lost after Kafka had acknowledged it to a replay"),
        (kept.without_row, "of which no row tells which store has it"),
    ]
    sentences = [f"{plural(n, 'message')} {what}" for n, what in found if n]
    return sentences + [f"store {store} could not be listed at the end" for store in not_read]
