"""The hand-made findings, as a document and as a model."""

from __future__ import annotations

from typing import Any

import pytest
from handmade_findings import document

from kaput.evidence.findings import Findings


@pytest.fixture
def raw() -> dict[str, Any]:
    """findings.json as a document, to be changed by the test."""
    return document()


@pytest.fixture
def findings() -> Findings:
    """The same as a model."""
    return Findings.model_validate(document())
