"""A check that was kept as evidence is judged alike by `kaput analyze`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fakes.judging import findings_in
from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.sequence.checking import Checker, Sent
from kaput.sequence.evidence import EvidenceFolder
from kaput.sequence.parsing import TextFormat
from kaput.sequence.summary import CheckSummary, summarise

T0 = 1_700_000_000_000


def both(lines: list[str], expected: tuple[int, int], path: Path, cut: int) -> tuple[CheckSummary, Findings]:
    """What the check says and what the analysis says, of lines that came in two blocks."""
    folder = EvidenceFolder(path)
    checker, form = Checker(anyone=Sent.range(expected), on_block=folder.block), TextFormat()
    for some in (lines[:cut], lines[cut:]):
        block = "".join(line + "\n" for line in some).encode()
        checker.take(form.parse(block), block)
    checker.end()
    summary = summarise(checker)
    folder.seal(summary, None)
    return summary, findings_in(folder.folder)


def count(findings: Findings, name: str) -> int:
    return sum(found.count for found in findings.anomaly(name))


@pytest.mark.parametrize("seed", range(6))
def test_analysis_and_check_counts_agree(seed: int, tmp_path: Path) -> None:
    """Missing is lost, twice is duplicate, behind is reordered, unexpected is a phantom."""
    chance = random.Random(seed)
    producers = range(1 + seed % 2)
    numbers = [(n, who) for n in range(1, 400) for who in producers if chance.random() > 0.1]
    for _ in range(30):
        numbers.insert(chance.randrange(len(numbers)), chance.choice(numbers))
    for _ in range(10):
        at = chance.randrange(len(numbers) - 5)
        numbers.insert(at, numbers.pop(at + 5))
    lines = [f"{n} {T0 + n} {who}" for n, who in numbers]
    lines.insert(77, "something else")
    lines.insert(99, f"5000 {T0} 0")
    summary, findings = both(lines, (1, 400), tmp_path / "kept", chance.randrange(len(lines)))
    total = summary.total
    assert total.missing > 0 and total.duplicates > 0 and total.reordered > 0
    assert findings.totals.sent == total.expected
    assert findings.totals.log_records == len(lines)
    assert count(findings, "lost") == total.missing
    assert count(findings, "duplicate") == total.duplicates
    assert count(findings, "reordered") == total.reordered
    assert count(findings, "phantom") == total.unexpected == 1
    assert findings.verdict == "violated"


def test_a_whole_sequence_is_held(tmp_path: Path) -> None:
    """Nothing is missing, in order, once."""
    summary, findings = both([f"{n} {T0 + n}" for n in range(1, 101)], (1, 100), tmp_path / "kept", 40)
    assert summary.held(strict=True)
    assert findings.verdict == "held", findings.reasons


@pytest.mark.parametrize(("third", "verdict"), [(3, "inconclusive"), (4, "violated")])
def test_what_may_be_in_unreadable_lines_is_inconclusive_for_both(
    third: int, verdict: str, tmp_path: Path
) -> None:
    """One missing number, or two, and one such line."""
    lines = [f"1 {T0}", "x", f"{third} {T0 + 2}"]
    summary, findings = both(lines, (1, third), tmp_path / "kept", 1)
    assert (summary.verdict, findings.verdict) == (verdict, verdict), findings.reasons


def test_empty_input_is_all_lost(tmp_path: Path) -> None:
    """Also without a single time to go by."""
    summary, findings = both([], (1, 50), tmp_path / "kept", 0)
    assert (summary.total.missing, count(findings, "lost")) == (50, 50)


def test_evidence_folder_must_be_empty(tmp_path: Path) -> None:
    """It may be somebody's evidence."""
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="exists and is not an empty directory"):
        EvidenceFolder(tmp_path)
