"""JUnit XML of a run: what a collector of test results would count."""

from __future__ import annotations

from typing import Any

from handmade_findings import anomaly
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from kaput.evidence.findings import Findings
from kaput.report.junit import to_junit
from kaput.scenario.anomalies import ANOMALIES


def cases(raw: dict[str, Any]) -> dict[str, TestCase]:
    """The cases by name, read back with the parser of others."""
    (suite,) = JUnitXml.fromstring(to_junit(Findings.model_validate(raw)))
    return {case.name: case for case in suite}


def test_a_run_that_held_has_a_passing_case_for_everything(raw: dict[str, Any]) -> None:
    """Verdict, every anomaly, every fault; none fails, and permitted losses do not either."""
    found = cases(raw)
    assert len(found) == 1 + len(ANOMALIES) + 1
    assert all(case.is_passed for case in found.values())
    assert "1-kill: kill leader-of orders/0 took effect" in found
    assert found["lost"].system_out == "23 lost, all permitted"


def test_a_violation_is_a_failure_with_its_stories(raw: dict[str, Any]) -> None:
    """The forbidden anomaly fails and tells its examples; the verdict fails with its reasons."""
    raw["verdict"] = "violated"
    anomaly(raw, "lost")["permitted"] = 20
    found = cases(raw)
    (result,) = found["lost"].result
    assert isinstance(result, Failure)
    assert (
        result.message == "3 forbidden of 23 lost (deposed-leader 23)" and "message 41 is gone" in result.text
    )
    assert isinstance(found["verdict"].result[0], Failure)
    assert found["ghost"].is_passed


def test_inconclusive_cases_do_not_pass(raw: dict[str, Any]) -> None:
    """Inconclusive verdict and toothless fault are errors; unread and undrained anomalies are skipped."""
    raw["verdict"] = "inconclusive"
    raw["totals"]["unread"] = 5
    raw["groups"][0]["drained"] = False
    raw["faults"][0]["bit"] = False
    found = cases(raw)
    assert isinstance(found["verdict"].result[0], Error)
    assert isinstance(found["1-kill: kill leader-of orders/0 took effect"].result[0], Error)
    assert isinstance(found["lost"].result[0], Skipped)
    assert isinstance(found["unseen in group billing"].result[0], Skipped)
    assert found["redelivered in group billing"].is_passed


def test_unread_partition_skips_every_log_anomaly(raw: dict[str, Any]) -> None:
    """Though no message is missing; what groups were handed is another matter."""
    raw["unread_partitions"] = [{"topic": "orders", "partition": 0, "drained_to": 5, "end_offset": 10}]
    found = cases(raw)
    (skipped,) = found["phantom"].result
    assert isinstance(skipped, Skipped) and skipped.message == "1 partition not read to the end"
    assert isinstance(found["duplicate"].result[0], Skipped)
    assert found["redelivered in group billing"].is_passed


def test_fault_effect_without_a_timestamp_is_an_error(raw: dict[str, Any]) -> None:
    """`bit` alone is no proof."""
    raw["faults"][0]["effective_ns"] = None
    (error,) = cases(raw)["1-kill: kill leader-of orders/0 took effect"].result
    assert isinstance(error, Error)
    assert error.message == "took effect at an unknown time: broker 1 (pid 77): gone"


def test_text_that_xml_cannot_hold_does_not_break_the_document(raw: dict[str, Any]) -> None:
    """Control characters, markup and non-ASCII text in a proof survive or are replaced."""
    raw["faults"][0]["proof"] = "node <1> \x00 & \x1b[31m größer"
    case = cases(raw)["1-kill: kill leader-of orders/0 took effect"]
    assert case.system_out == "node <1> ? & ?[31m größer"


def test_suite_totals_match_its_cases(raw: dict[str, Any]) -> None:
    """Totals in the suite's attributes, the run's identity in its properties."""
    raw["verdict"] = "violated"
    (suite,) = JUnitXml.fromstring(to_junit(Findings.model_validate(raw)))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (2 + len(ANOMALIES), 1, 0, 0)
    assert {p.name: p.value for p in suite.properties()}["run"] == "0b6f"
