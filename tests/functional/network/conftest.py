"""What the tests of the network share: the ways into a namespace.

Where the kernel forbids or lacks it, they are skipped with the sentence that kaput says about it; pytest
counts them in its last lines (-ra). Whatever else is missing fails them. Disks that can fail need root
(test_disks.py).
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from driving import WITHOUT_RIGHTS
from kaput.cluster.network.capability_checks import NEEDS
from kaput.cluster.network.reexec import namespace_command
from kaput.errors import NamespacesError
from waiting import PATIENCE_S

_ASK = """
import json
from kaput.cluster.network.capability_checks import NEEDS
from kaput.cluster.network.reexec import namespace_command
from kaput.errors import NamespacesError
try:
    print(json.dumps({"way": namespace_command(set(NEEDS) - {"ext4"})}))
except NamespacesError as error:
    print(json.dumps({"why": str(error)}))
"""


@pytest.fixture(scope="session")
def way() -> list[str]:
    """The command before a program that shall run in a namespace of its own."""
    try:
        return namespace_command(set(NEEDS) - {"ext4"})
    except NamespacesError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def users_way() -> list[str]:
    """The same without root's rights."""
    asked = [*WITHOUT_RIGHTS, sys.executable, "-c", _ASK]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    told = json.loads(done.stdout)
    if "why" in told:
        pytest.skip(f"without root's rights: {told['why']}")
    return [*WITHOUT_RIGHTS, *told["way"]]
