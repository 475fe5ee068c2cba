"""The sections of a report. Each module builds its section from findings, for all renderers.

To add a section, add a module with a function that takes a JudgedRun and returns a Section, or None if it has
nothing to show, and add the function to SECTIONS (docs/ADDING_A_SECTION.md).
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
