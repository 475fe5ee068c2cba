"""Where tests find the Spark that is played in this process."""

from __future__ import annotations

from kaput.analysis.spark.in_process import InProcess

__all__ = ["InProcess"]
