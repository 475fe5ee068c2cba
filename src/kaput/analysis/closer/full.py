"""When the engine's sums cannot settle a question: then the analysis in SQL answers all of them."""

from __future__ import annotations


class NotSettled(Exception):
    """What stands in the way, as part of a sentence."""
