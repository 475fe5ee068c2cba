"""What clients made of errors: by kind of client, how many requests a fault in the protocol answered with
which error, and with which errors of their clients messages ended without an acknowledgement.

What a client does on its own about an error (ask again, find another coordinator) is not recorded: an error
after which every message was acknowledged has only the first number. Nor are the errors of members.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.versions import kind_of_client_id
from kaput.evidence.findings_parts import ClientErrors
from kaput.scenario.timeline import step_id

if TYPE_CHECKING:
    from kaput.analysis.facts.inputs import Inputs
    from kaput.analysis.run import Run
    from kaput.analysis.views.rows import Rows

_ANSWERED = "answered with an error"


class ErrorsOfClients(Question):
    """Counts rows of sends in the stage rows, and of the table frames on the driver."""

    needs = {"rows": ("sends",)}
    sums = {"client_errors": Sum(("producer", "error"), ("n",), types={"error": pl.String()})}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """By producer and error, messages that were not acknowledged."""
        if rows.table == "sends":
            code = (
                pl.col("error").str.split(":").list.first()
            )  # what follows names single messages and brokers
            yield SumPart("client_errors", rows.coded.runs.drop_nulls("error").select("producer", code, "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """A row for each kind of client that met errors."""
        answered, messages = _answered(run.given), defaultdict[str, Counter[str]](Counter)
        for producer, error, n in run.sums["client_errors"].iter_rows():
            kind = kind_of_client_id(f"kaput-producer-{producer}", run.given) or f"producer {producer}"
            messages[kind][error] += n
        yield findings(
            client_errors=[
                ClientErrors(client=kind, answered=_sorted(answered[kind]), messages=_sorted(messages[kind]))
                for kind in sorted({*answered, *messages})
            ]
        )


def _answered(given: Inputs) -> dict[str, Counter[str]]:
    """By kind of client: how many requests were answered with an error, by request and error."""
    steps = enumerate(given.scenario.faults if given.scenario else (), start=1)
    errors = {step_id(n, step): getattr(step.options, "error", None) for n, step in steps}
    found = defaultdict[str, Counter[str]](Counter)
    for row in given.evidence.rows("frames"):
        if row["action"] == _ANSWERED:
            kind = kind_of_client_id(row["client_id"] or "", given) or "others"
            found[kind][f"{row['api']} {errors.get(row['fault']) or 'unknown error'}"] += 1
    return found


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
