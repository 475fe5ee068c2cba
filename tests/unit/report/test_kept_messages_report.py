"""What reports say of messages that stores kept, and that they say nothing where there are no stores."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History
from fakes.judging import findings_in
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import EVERY_FIGURE
from kaput.report.junit import to_junit
from kaput.report.run_report import to_html, to_markdown, to_text
from kaput.report.sections.fates import fates_table
from kaput.report.timeline.reading import read_timeline


def _judged(path: Path, read: bool = True) -> tuple[Findings, RunFolder]:
    """Three messages kept: 2 is delivered later, twice, 3 is waiting, and 4 is nowhere."""
    history = History(stores={"local": read}).acked(0, 0, 0).acked(0, 1, 1)
    for seq in (2, 3, 4):
        history.sent(0, seq, None, "kept", partition=None).kept(0, seq, in_doubt=seq == 2)
    history.stored(2, 0, 2).stored(3, 0, 2).replayed(0, 2, 61_504)
    folder = history.add("left_in_store", store="local", producer=0, seq=3).read_to_end().write(path)
    return findings_in(folder), folder


def test_kept_messages_are_in_text_html_and_markdown(tmp_path: Path) -> None:
    """The headline, a table by store, and sentences for what the table does not say."""
    findings, folder = _judged(tmp_path)
    text, page, short = to_text(findings, tmp_path).plain, to_html(folder, findings), to_markdown(findings)
    assert "3 kept by a store (1 delivered later, 1 waiting there, 1 lost in store)" in text
    assert all("Kept" in shown and "local (sqlite)" in shown for shown in (text, page, short))
    row = next(line for line in text.splitlines() if line.startswith("  local (sqlite)"))
    assert row.split()[1:7] == ["(sqlite)", "3", "1", "1", "1", "0"] and row.endswith("61.5 s")
    assert "1 message kept in doubt: its client did not know whether Kafka had stored it" in text
    two = findings.model_copy(update={"kept": findings.kept.model_copy(update={"in_doubt": 2})})  # type: ignore[union-attr]
    assert (
        "2 messages kept in doubt: their client did not know whether Kafka had stored them"
        in to_text(two, tmp_path).plain
    )
    assert [cells[-1] for cells in fates_table(findings).rows if cells[-1] == "3"] == ["3"]
    assert "the end offsets also count 1 kept and 1 extra copy" in text


def test_the_timeline_shows_how_much_is_in_stores(tmp_path: Path) -> None:
    """A row of its own; until the end of the run, as long as anything is left."""
    findings, folder = _judged(tmp_path)
    timeline = read_timeline(folder, findings)
    assert timeline is not None
    assert [one.messages for one in timeline.in_stores] == [3, 2, 2]
    assert timeline.in_stores[-1].at == timeline.end_s
    assert "Kept by stores" in to_html(folder, findings)


def test_junit_skips_messages_in_an_unreadable_store(tmp_path: Path) -> None:
    """A loss fails its case; of a store that could not be listed nothing is known."""
    findings, _ = _judged(tmp_path / "read")
    assert "1 forbidden of 1 lost-in-store (store 1)" in to_junit(findings)
    findings, _ = _judged(tmp_path / "not-read", read=False)
    assert "1 kept message in a store that could not be read" in to_junit(findings)
    assert "store local could not be listed at the end" in to_text(findings, tmp_path).plain


def test_columns_of_kept_messages(tmp_path: Path) -> None:
    """By their names; without stores they have nothing."""
    findings, _ = _judged(tmp_path / "with")
    names = ("kept", "delivered later", "waiting in store", "lost-in-store", "kept max s", "refused")
    assert [EVERY_FIGURE[name].of(findings) for name in names] == [3, 1, 1, 1, 61.5, 0]
    without = History().acked(0, 0, 0).read_to_end().write(tmp_path / "without")
    nothing = findings_in(without)
    assert [EVERY_FIGURE[name].of(nothing) for name in names[:3]] == [None] * 3
    assert "Kept" not in to_text(nothing, tmp_path).plain
    assert "kept" not in [str(cells[0]) for cells in fates_table(nothing).rows]
