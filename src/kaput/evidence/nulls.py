"""What stands for null in an integer column while it is gathered, or looked at as an array."""

from __future__ import annotations

NULL_LONG = -(2**63)
NULL_INT = -(2**31)
