"""The doctor's findings as text: worst first, with evidence and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from kaput.core import plural
from kaput.operate.doctor.diagnosis import Finding
from kaput.printable import printable

_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}


def render(findings: Sequence[Finding], unknown: Sequence[str]) -> Text:
    """The text of `findings`, which are in display order: grouped by check."""
    text = Text()
    for _, group in groupby(findings, key=lambda finding: finding.id):
        same = list(group)
        first = same[0]
        text.append(f"{first.id} {first.severity}: {first.title}\n", style=_STYLES[first.severity])
        for each in same:
            text.append(f"  {printable(each.resource)}: {printable(each.evidence)}\n")
        remedies = list(dict.fromkeys(each.remedy for each in same))
        more = f" (and {len(remedies) - 1} like it)" if len(remedies) > 1 else ""
        text.append(f"  remedy: {printable(remedies[0])}{more}\n", style="dim")
    for what in unknown:
        text.append(f"not checked: {printable(what)}\n")
    counts = [
        plural(count, severity, "warnings" if severity == "warning" else severity)
        for severity in _STYLES
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    text.append(f"{', '.join(counts) or 'nothing found'}\n", style="bold")
    return text
