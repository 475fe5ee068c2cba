"""All checks of the doctor: one function each, with a stable id, from a snapshot to findings.

A new one is a function with `@check` in settings.py, state.py, groups.py or leftovers.py, its line in
docs/DOCTOR.md, and two snapshots in its test: one with the problem, one without. Numbers are never reused.
Severities: `critical` loses messages or stops the service by itself or with one broker's failure, `warning`
together with another problem, `info` costs performance.
"""

from __future__ import annotations

from kaput.operate.doctor import groups, leftovers, settings, state
from kaput.operate.doctor.check import CHECKS, SEVERITIES, Severity

# Each registers its checks as it is imported.
__all__ = ["CHECKS", "SEVERITIES", "Severity", "groups", "leftovers", "settings", "state"]
