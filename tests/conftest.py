"""Two workers share the tests: one plays with real brokers, the other judges with Spark (`make test`).

Tests of brokers wait most of the time, and two clusters at once would be too many for two cores; tests of
Spark share one session. Whatever is neither goes to the worker that is free.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# Nothing is timed here: a busy machine must not fail a test.
settings.register_profile("kaput", deadline=None)
settings.load_profile("kaput")

_HERE = Path(__file__).parent
# By directory: the tests that must run in one worker, one after the other.
_GROUPS = {"functional": "brokers", "spark": "spark", "property": "spark"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the test with the group that it runs in (pytest-xdist's `--dist loadgroup`)."""
    directory = item.path.relative_to(_HERE).parts[0]
    if directory in _GROUPS:
        item.add_marker(pytest.mark.xdist_group(_GROUPS[directory]))
