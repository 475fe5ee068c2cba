"""All checks of the doctor: each a function from a snapshot to findings, with a stable id.

A new check is a function with `@check` in settings.py, state.py, groups.py or leftovers.py, its line in
docs/DOCTOR.md, and two snapshots in its test: one with the problem, one without. Numbers are never reused.
Severities: `critical` loses messages or stops the service by itself or with one broker's failure, `warning`
together with another problem, `info` costs performance.
"""

from __future__ import annotations

from kaput.operate.doctor import groups, leftovers, settings, state
from kaput.operate.doctor.check import CHECKS, SEVERITIES, Severity

# Importing these modules registers their checks.
__all__ = ["CHECKS", "SEVERITIES", "Severity", "groups", "leftovers", "settings", "state"]
