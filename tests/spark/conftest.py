"""The shared Spark as a fixture."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from fakes.spark import shared_context


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """One Spark for the whole test run."""
    return shared_context()
