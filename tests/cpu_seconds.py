"""A plugin of pytest: how long files of tests take, and how much CPU time, with the processes they start.

CPU time is that of what has ended by the end of a test: brokers, JVMs and kaput itself. Where several workers
and their brokers share the cores, time itself tells little. Tests with real brokers are all listed, with
TIMES=FILE also in that file (`make times`).
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_SHOWN = 15
_NAME = "cpu_s"
_BROKERS = "tests/functional/"
BEGIN, END = "<!-- times: begin -->", "<!-- times: end -->"
_began = 0.0


@dataclass
class Used:
    """What the tests of a file took: how many they are, seconds, and CPU seconds."""

    tests: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0


def _used() -> float:
    """CPU seconds of this process and of its ended children."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


def pytest_runtest_logstart() -> None:
    """A test begins."""
    global _began  # noqa: PLW0603
    _began = _used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Notes at the end of a test what it used; workers send that along."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_NAME, _used() - _began))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The files that used most, and all of those with real brokers."""
    used = _by_file(terminalreporter)
    if not used:
        return
    by_cpu = sorted(used.items(), key=lambda item: -item[1].cpu_s)
    terminalreporter.section(f"CPU seconds by file ({sum(each.cpu_s for each in used.values()):.0f} in all)")
    for file, each in by_cpu[:_SHOWN]:
        terminalreporter.line(f"{each.cpu_s:7.1f}  {file}")
    brokers = {file.removeprefix(_BROKERS): each for file, each in by_cpu if file.startswith(_BROKERS)}
    if brokers:
        tests = sum(each.tests for each in brokers.values())
        terminalreporter.section(f"{tests} tests with real brokers: tests, seconds, CPU seconds")
        for file, each in brokers.items():
            terminalreporter.line(f"{each.tests:4} {each.wall_s:7.1f} {each.cpu_s:7.1f}  {file}")
        if path := os.environ.get("TIMES"):
            _replace(Path(path), table(brokers))


def _by_file(terminalreporter: pytest.TerminalReporter) -> dict[str, Used]:
    found: dict[str, Used] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            each = found.setdefault(report.nodeid.partition("::")[0], Used())
            each.wall_s += report.duration
            if report.when == "teardown":
                each.tests += 1
                each.cpu_s += sum(seconds for name, seconds in report.user_properties if name == _NAME)
    return found


def table(brokers: Mapping[str, Used]) -> str:
    """A Markdown table with a row for each file, and one for all of them."""
    rows = [
        *(
            f"| {file} | {each.tests} | {each.wall_s:.0f} | {each.cpu_s:.0f} |"
            for file, each in sorted(brokers.items())
        ),
        f"| all | {sum(each.tests for each in brokers.values())} "
        f"| {sum(each.wall_s for each in brokers.values()):.0f} "
        f"| {sum(each.cpu_s for each in brokers.values()):.0f} |",
    ]
    return "\n".join(["| file | tests | seconds | CPU seconds |", "| --- | --- | --- | --- |", *rows])


def _replace(path: Path, text: str) -> None:
    """Puts the text between both marks of a page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
