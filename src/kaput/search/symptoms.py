"""The symptoms of a judged trial: a broken promise or expectation, a hang, a fatal error of a broker.

Not here: whether a symptom reproduces (searching.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kaput.evidence.findings import Anomaly, Findings
from kaput.trials.batch import Judged

_FATAL = re.compile(r"\[[^]]*\] (?:FATAL|ERROR) (.*(?:fatal fault|Exiting Kafka|halting).*)", re.IGNORECASE)
_EXCEPTION = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)+(\w+(?:Exception|Error))\b")


@dataclass(frozen=True)
class Symptom:
    """A symptom. `name`: an anomaly, an expectation, `hang` or `fatal`; `cause`: empty if unknown."""

    name: str
    cause: str = ""

    @property
    def key(self) -> str:
        """`lost:leader-restarted`: the same for the same bug, as far as is known."""
        return f"{self.name}:{self.cause}" if self.cause else self.name


def name_of(key: str) -> str:
    """`lost` for the key `lost:leader-restarted`."""
    return key.partition(":")[0]


def symptoms(judged: Judged) -> list[Symptom]:
    """All symptoms of a trial, the most important first."""
    found = list(_violations(judged.findings)) if judged.findings else []
    if judged.folder is not None:
        found += _fatal(judged.folder.brokers)
    if judged.findings is not None and not found:
        found += _hangs(judged.findings)
    return list(dict.fromkeys(found))


def _violations(findings: Findings) -> Iterator[Symptom]:
    broken = {each.name: each for each in findings.anomalies if each.forbidden}
    for expected in findings.expectations:
        if expected.met == "exceeded" and expected.name != "verdict":
            known = next((each for each in findings.anomaly(expected.name) if each.count), None)
            yield Symptom(expected.name, _main_cause(known))
    if findings.promise == "violated":
        for anomaly in broken.values():
            yield Symptom(anomaly.name, _main_cause(anomaly))
        if not broken:
            yield Symptom("promise")


def _main_cause(anomaly: Anomaly | None) -> str:
    causes = anomaly.causes if anomaly else {}
    return max(causes, key=lambda cause: causes[cause], default="")


def _hangs(findings: Findings) -> Iterator[Symptom]:
    """Data that cannot be read although every fault is healed."""
    if findings.unread_partitions:
        yield Symptom("hang", "unread")
    if any(not group.drained for group in findings.groups):
        yield Symptom("hang", "not-drained")


def _fatal(brokers: Path) -> Iterator[Symptom]:
    """Brokers that shut themselves down, according to their logs."""
    for log in sorted(brokers.glob("*/*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines):
            if _FATAL.match(line):
                named = (_EXCEPTION.match(after) for after in lines[number + 1 : number + 40])
                yield Symptom("fatal", next((found[1] for found in named if found), ""))
