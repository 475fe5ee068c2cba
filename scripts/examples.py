"""The examples of README.md and of pages in docs: what the reports of runs in tests/recorded print.

Used by reference.py. The runs are recorded anew by record_runs.py; the tests judge them, and hold every claim
to the raw tables.
"""

from __future__ import annotations

import shutil
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import InProcess
from kaput.cli.demo import PAIR, summary
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.report.comparison import Entry
from kaput.report.comparison_report import to_text
from kaput.report.run_report import to_text as report_text
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import outages
from kaput.report.sections.leaders import leader_sentences
from kaput.report.sentences import verdict_sentence

RECORDED = Path(__file__).parents[1] / "tests" / "recorded"
OUTAGES = ("broker-killed", "broker-isolated")
TWO_LEADERS = "leader-isolated-acks-1"
_COLUMNS = (
    "verdict",
    "outage waited for",
    "unavailable ms",
    "standstill ms",
    "acked in 1 s %",
    "election ms",
)
_WIDTH = 110
_CUT = 150  # of the tutorial's lines


def examples() -> dict[str, str]:
    """The text of each example, by its name in its page."""
    killed, isolated = (_judged(name) for name in OUTAGES)
    lines = [
        f"{name}: {' '.join(outages(JudgedRun(run)))}"
        for name, run in zip(OUTAGES, (killed, isolated), strict=True)
    ]
    alone = _judged(TWO_LEADERS)
    return {
        "demo": _code(summary([_entry(_judged(name)) for name in PAIR]).rstrip()),
        "outages": _code(_table([killed, isolated], _COLUMNS), *lines),
        "two-leaders": _code(verdict_sentence(alone), *leader_sentences(JudgedRun(alone))),
        "report": _report(PAIR[0], ("Why", "Faults", "Leaders")),
        "orders": _report("orders", ("Why", "Expectations", "Availability", "Faults", "Consumer groups")),
    }


def _judged(name: str) -> Findings:
    """The findings of a recorded run. Judges a copy: judging writes into the folder."""
    with tempfile.TemporaryDirectory(prefix="kaput-examples-") as path:
        folder = Path(path) / name
        shutil.copytree(RECORDED / name, folder)
        spark: Any = InProcess()
        return analyse(check(RunFolder(folder)), spark)


def _report(name: str, sections: Sequence[str]) -> str:
    """The head of a report, and these of its sections, with long lines cut; `...` for what is left out."""
    head, *blocks = report_text(_judged(name), f"runs/20260101T120000-{name}").plain.strip().split("\n\n")
    shown, kept = [_shortened(head)], False
    for block in blocks:
        title = block.partition("\n")[0]
        if not title.startswith(" "):  # a new section
            kept = title in sections
        if kept:
            shown.append(_shortened(block))
        elif shown[-1] != "...":
            shown.append("...")
    return "\n" + textwrap.indent("\n\n".join(shown), "    ") + "\n"


def _shortened(block: str) -> str:
    """The block with its long lines cut."""
    lines = block.split("\n")
    return "\n".join(line if len(line) <= _CUT else f"{line[: _CUT - 4].rstrip()} ..." for line in lines)


def _table(runs: Sequence[Findings], columns: Sequence[str] = ()) -> str:
    return to_text([_entry(run) for run in runs], _WIDTH, columns).plain.rstrip()


def _entry(run: Findings) -> Entry:
    return Entry(run.run.folder, run.run.scenario, run.run.scenario, {}, run)


def _code(*paragraphs: str) -> str:
    """Paragraphs as an indented block of Markdown."""
    wrapped = [
        "\n".join(
            textwrap.fill(line, _WIDTH, subsequent_indent="  ", drop_whitespace=True)
            if len(line) > _WIDTH
            else line
            for line in one.split("\n")
        )
        for one in paragraphs
    ]
    return "\n" + textwrap.indent("\n\n".join(wrapped), "    ") + "\n"
