"""The section that docs/ADDING_A_SECTION.md adds, as its page has it."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from handmade_findings import document

from kaput.evidence.findings import Findings
from kaput.report.document import Document, Head
from kaput.report.render import terminal
from kaput.report.sections import JudgedRun

PAGE = Path(__file__).parents[3] / "docs" / "ADDING_A_SECTION.md"


def test_section_of_the_guide_is_drawn_if_there_is_something_to_show() -> None:
    """And is none if there is nothing."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    page: dict[str, Any] = {"__name__": "silences"}
    exec(compile(dedent(code), str(PAGE), "exec"), page)
    findings = Findings.model_validate(document())
    section = page["section"](JudgedRun(findings))
    text = terminal.render(Document(Head("HELD"), [section])).plain
    assert "  partition  longest ms\n  orders/0       10,012\n" in text
    assert page["section"](JudgedRun(findings.model_copy(update={"unavailability": []}))) is None
