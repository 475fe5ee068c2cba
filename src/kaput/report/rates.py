"""Rates as text, where the run was ordered at one: stretches below it, and means by the faults."""

from __future__ import annotations

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.report.layout import columns, number, plural

MEANS = ["mean", "seconds", "sent per s", "acknowledged per s", "delivered per s"]


def rates_text(findings: Findings) -> Text:
    """A sentence of each slump and a table of means; nothing where nothing was ordered."""
    text = Text("".join(f"  {said}\n" for said in slumps(findings)))
    return text.append_text(columns(MEANS, means(findings))) if text else text


def slumps(findings: Findings) -> list[str]:
    """What was ordered, and for how long there was less; nothing where nothing was ordered."""
    rates = findings.rates
    if rates.ordered_per_s is None or not rates.means:
        return []
    said = [f"ordered: {number(rates.ordered_per_s)} a second"]
    for slump in rates.slumps:
        below = f"{slump.what}: below {number(slump.below_per_s)} a second"
        at_most = f"for {plural(slump.longest_s, 'second')} at most, {slump.total_s:,} in all"
        said.append(f"{below} {at_most if slump.total_s else 'never'}")
    return said


def means(findings: Findings) -> list[list[str]]:
    """The cells of MEANS, a row for each stretch of the run."""
    return [
        [
            mean.when,
            f"{mean.seconds:,}",
            *map(number, (mean.sent_per_s, mean.acked_per_s, mean.delivered_per_s)),
        ]
        for mean in findings.rates.means
    ]
