"""The sections of a report. Each module turns findings into its section, once, for every renderer.

To add one: a module here with a function from a JudgedRun to a Section, or None where there is nothing to
show; then its place in SECTIONS (docs/ADDING_A_SECTION.md).
"""

from __future__ import annotations

from collections.abc import Callable

from kaput.report.document import Section
from kaput.report.sections import (
    availability,
    fates,
    faults,
    groups,
    kept,
    leaders,
    mirrors,
    performance,
    plan,
    published,
    rerun,
    resized,
    summary,
    transactions,
    versions,
)
from kaput.report.sections.judged_run import JudgedRun

SECTIONS: tuple[Callable[[JudgedRun], Section | None], ...] = (
    summary.reasons,
    summary.expectations,
    availability.section,
    faults.section,
    leaders.section,
    fates.fates,
    kept.section,
    mirrors.section,
    plan.section,
    fates.anomalies,
    groups.section,
    transactions.section,
    resized.section,
    performance.rates,
    performance.latency,
    versions.section,
    published.section,
    rerun.configuration,
    rerun.rerun,
)
