"""A plugin of pytest's: which files of tests use how much CPU time, with the processes that they start.

Of what they start, what has ended by the end of a test: brokers, JVMs and kaput itself. Time tells little
where several workers and their brokers share the cores.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator

import pytest

_SHOWN = 15
_NAME = "cpu_s"
_began = 0.0


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
    """The files that used most."""
    used: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, seconds in getattr(report, "user_properties", ()):
                if name == _NAME and report.when == "teardown":
                    used[report.nodeid.partition("::")[0]] += seconds
    if used:
        terminalreporter.section(f"CPU seconds by file ({sum(used.values()):.0f} in all)")
        for file, seconds in used.most_common(_SHOWN):
            terminalreporter.line(f"{seconds:7.1f}  {file}")
