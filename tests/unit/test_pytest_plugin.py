"""The fixtures' cluster is what marker and ini key say, under their names of today and of before."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import pytest

pytest_plugins = ["pytester"]


class FakeLab:
    """A lab without brokers. `started`: what each was asked for; `died`: sentences about dead brokers."""

    started: ClassVar[list[dict[str, Any]]] = []
    died: ClassVar[list[str]] = []

    def __init__(self, scenario: str | None = None, *, folder: object, **cluster: Any) -> None:
        self.started.append({**cluster, **({"scenario": scenario} if scenario else {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to stop."""

    def troubles(self) -> list[str]:
        return self.died


@pytest.fixture(autouse=True)
def _no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaput.api.lab.lab", FakeLab)
    monkeypatch.setattr(FakeLab, "started", [])
    monkeypatch.setattr(FakeLab, "died", [])


def ran(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    """The result of a test file with these lines."""
    pytester.makepyfile(f"import pytest\n{test}")
    return pytester.runpytest_inprocess("--strict-markers", "-p", "no:xdist", *options)


def test_marker_configures_the_tests_cluster(pytester: pytest.Pytester) -> None:
    """Its arguments are those of kaput.lab; without it there are none."""
    marked = "@pytest.mark.kafka_cluster('noop', brokers=1)\ndef test_it(kafka_lab): pass\n"
    result = ran(pytester, f"{marked}def test_other(kafka_lab): pass\n", "-W", "error")
    result.assert_outcomes(passed=2)
    assert FakeLab.started == [{"scenario": "noop", "brokers": 1}, {}]


def test_ini_key_configures_the_shared_cluster(pytester: pytest.Pytester) -> None:
    """It is started once, and its values are YAML."""
    pytester.makeini("[pytest]\nkaput_cluster =\n    brokers=5\n    racks=[a, b]\n")
    tests = "def test_one(kafka_lab_shared): pass\ndef test_two(kafka_lab_shared): pass\n"
    ran(pytester, tests, "-W", "error").assert_outcomes(passed=2)
    assert FakeLab.started == [{"brokers": 5, "racks": ["a", "b"]}]


def test_malformed_ini_line_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """It is quoted with its key, and no cluster is started."""
    pytester.makeini("[pytest]\nkaput_cluster = brokers\n")
    result = ran(pytester, "def test_it(kafka_lab_shared): pass\n")
    result.stdout.fnmatch_lines(["*kaput_cluster: brokers is not KEY=VALUE*"])
    assert not FakeLab.started


def test_unexpected_broker_death_fails_the_test(pytester: pytest.Pytester) -> None:
    """The test itself passed; its result is worth little."""
    FakeLab.died.append("broker 2 ended by itself")
    result = ran(pytester, "def test_it(kafka_lab): pass\n")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*broker 2 ended by itself*"])
