"""What the tests of the network share: the way into a namespace, which they insist on having."""

from __future__ import annotations

import pytest

from kaput.cluster.network.preflight import NEEDS, way_in
from kaput.errors import LabError


@pytest.fixture(scope="session")
def way() -> list[str]:
    """The command before a program that shall run in a namespace of its own; fails where there is none."""
    try:
        return way_in(NEEDS)
    except LabError as error:
        pytest.fail(f"the network faults cannot be tested here: {error}")
