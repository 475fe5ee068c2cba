"""Findings as JUnit XML, for tools that collect test results: a test suite for each run.

A test case for Kafka's promise, for each expectation of the scenario, for each anomaly (per group), and for
each fault's proof. Whatever is forbidden is a failure; whatever could not be judged is skipped or an error,
with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from kaput.core import plural
from kaput.evidence.findings import Anomaly, FaultFindings, Findings
from kaput.evidence.findings_claims import Expected
from kaput.report.sentences import confirmation, promise_reasons
from kaput.scenario.anomalies import ANOMALIES, RUN_ANOMALIES

# Characters that XML 1.0 forbids, even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_RESULTS = {"violated": Failure, "exceeded": Failure, "inconclusive": Error, "unmet": Error}


def to_junit(*runs: Findings) -> str:
    xml = JUnitXml("kaput")
    for findings in runs:
        xml.add_testsuite(_suite(findings))
    to_bytes: Callable[[], bytes] = xml.tostring
    return f'<?xml version="1.0"?>\n{to_bytes().decode()}\n'


def _suite(findings: Findings) -> TestSuite:
    run = findings.run
    suite = TestSuite(_clean(f"kaput {run.scenario}"))
    suite.timestamp = datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for name, value in (("run", run.id), ("seed", run.seed), ("kafka", run.kafka), ("mode", run.mode)):
        suite.add_property(name, _clean(str(value)))
    suite.add_testcase(_promise(findings))
    for expected in findings.expectations:
        suite.add_testcase(_expectation(expected, findings))
    for anomaly in findings.anomalies:
        suite.add_testcase(_anomaly(anomaly, findings))
    for fault in findings.faults:
        suite.add_testcase(_fault(fault, findings))
    return suite


def _case(findings: Findings, name: str, kind: str) -> TestCase:
    return TestCase(_clean(name), classname=_clean(f"kaput.{findings.run.scenario}.{kind}"))


def _promise(findings: Findings) -> TestCase:
    """The case for Kafka's promise. Findings of an older kaput have only a verdict, not `promise`."""
    case = _case(findings, "verdict" if findings.promise is None else "Kafka kept its promise", "promise")
    if findings.run.ended_ns is not None:
        case.time = max(0.0, (findings.run.ended_ns - findings.run.started_ns) / 1e9)
    reasons = _clean("\n".join(promise_reasons(findings)))
    verdict = findings.promise or findings.verdict
    if verdict in _RESULTS:
        case.result = [_RESULTS[verdict](reasons, verdict)]
    return case


def _expectation(expected: Expected, findings: Findings) -> TestCase:
    case = _case(findings, f"expect {expected.name}: {expected.wanted}", "expectation")
    text = _clean(expected.text)
    if expected.met in _RESULTS:
        case.result = [_RESULTS[expected.met](text, expected.met)]
    else:
        case.system_out = text
    return case


def _anomaly(anomaly: Anomaly, findings: Findings) -> TestCase:
    case = _case(
        findings, f"{anomaly.name}{f' in group {anomaly.group}' if anomaly.group else ''}", "anomaly"
    )
    if anomaly.forbidden:
        causes = ", ".join(f"{cause} {count:,}" for cause, count in anomaly.causes.items() if count)
        text = f"{anomaly.forbidden:,} forbidden of {anomaly.count:,} {anomaly.name}"
        failure = Failure(f"{text} ({causes})" if causes else text, anomaly.name)
        failure.text = _clean("\n".join(example.story for example in anomaly.examples))
        case.result = [failure]
    elif anomaly.unclear:
        text = f"{anomaly.unclear:,} not known to be permitted of {anomaly.count:,} {anomaly.name}"
        case.result = [Error(text, anomaly.name)]
    elif reason := _not_judged(anomaly, findings):
        case.result = [Skipped(_clean(reason))]
    elif anomaly.count:
        case.system_out = f"{anomaly.count:,} {anomaly.name}, all permitted"
    return case


def _not_judged(anomaly: Anomaly, findings: Findings) -> str | None:
    """Why the absence of this anomaly proves nothing; None if it proves something."""
    missing = ANOMALIES[anomaly.name].missing if anomaly.name in ANOMALIES else None
    if missing == "log" and findings.totals.unread:
        return f"{findings.totals.unread:,} messages were not read back"
    if (missing == "log" or anomaly.name in RUN_ANOMALIES) and findings.unread_partitions:
        return f"{plural(len(findings.unread_partitions), 'partition')} not read to the end"
    if missing == "store" and findings.kept is not None and findings.kept.unclear:
        return f"{plural(findings.kept.unclear, 'kept message')} in a store that could not be read"
    undrained = [g.group for g in findings.groups if g.group == anomaly.group and not g.drained]
    if missing == "group" and undrained:
        return f"group {undrained[0]} had not read everything when the run ended"
    return None


def _fault(fault: FaultFindings, findings: Findings) -> TestCase:
    case = _case(findings, f"{fault.id}: {fault.fault} {fault.target} took effect", "fault")
    if fault.proven:
        case.system_out = _clean(fault.proof)
    else:
        case.result = [Error(_clean(f"{confirmation(fault)}: {fault.proof}"), "no-effect")]
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
