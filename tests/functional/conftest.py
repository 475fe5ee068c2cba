"""The fixture of the functional tests: kaput with run folders of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from driving import Kaput


@pytest.fixture
def kaput(tmp_path: Path) -> Kaput:
    """kaput with run folders of its own."""
    return Kaput(tmp_path / "runs")
