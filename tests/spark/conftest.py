"""The shared Spark session as a fixture."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from fakes.spark import shared_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One session for the whole test run."""
    return shared_session()
