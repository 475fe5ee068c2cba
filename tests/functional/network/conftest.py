"""What the tests of the network share: the way into a namespace.

Where the kernel forbids or lacks it, they are skipped with the sentence that kaput says about it; pytest
counts them in its last lines (-ra). Whatever else is missing fails them.
"""

from __future__ import annotations

import pytest

from kaput.cluster.network.preflight import NEEDS, way_in
from kaput.errors import NamespacesError


@pytest.fixture(scope="session")
def way() -> list[str]:
    """The command before a program that shall run in a namespace of its own."""
    try:
        return way_in(NEEDS)
    except NamespacesError as error:
        pytest.skip(str(error))
