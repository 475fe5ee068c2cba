"""Two workers share the tests: one plays with real brokers, the other judges with Spark (`make test`).

Tests of brokers wait most of the time, and two clusters at once would be too many for two cores; tests of
Spark share one session. Whatever is neither goes to the worker that is free.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Nothing is timed here: a busy machine must not fail a test.
settings.register_profile("kaput", deadline=None)
settings.load_profile("kaput")

# By directory: the tests that run in one worker, one after the other.
_TOGETHER = {"functional": "brokers", "spark": "spark", "property": "spark"}
# A JVM that is kept behind others needs a core that is idle now and then: after the brokers, beside tests
# that need one core alone.
_LAST = "tests/spark/test_background.py"


class ByDirectory(LoadScopeScheduling):
    """What has a word in _TOGETHER stays together; every other test is on its own."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_LAST):
            return "brokers"
        directory = nodeid.removeprefix("tests/").partition("/")[0]
        return _TOGETHER.get(directory, nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByDirectory:
    """pytest-xdist's own groups (`--dist loadgroup`) are not seen under the pytest that is locked."""
    return ByDirectory(config, log)
