"""phantom: a record in the log whose identity was never sent in this run. Counted as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, To
from kaput.analysis.engine.words import at, message
from kaput.analysis.runs.columns import RECORD

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages


class Phantoms(Question):
    """Finds phantoms, and passes them on: order.py ignores them."""

    passes = {"phantoms": dict.fromkeys((*RECORD, "n"), pl.Int64)}
    stories = {"phantom": lambda r: f"{at(r)} holds {message(r)}, which was never sent in this run"}
    shown_by = RECORD

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """The copies of messages that were never sent."""
        rows = messages.phantoms.select(*RECORD, "n")
        yield Cases("phantom", rows)
        yield To("phantoms", rows)
