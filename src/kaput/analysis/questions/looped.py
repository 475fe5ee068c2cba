"""looped: a message with a copy that mirrors brought back to the cluster that it was sent to. Counted as
messages.

views/homes.py determines these copies; they do not count as copies of the message otherwise. With the
identity policy a mirror cannot tell where a record came from, so mirrors in a cycle copy forever; with the
default policy it can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.runs.columns import MESSAGE
from kaput.analysis.runs.names import SHIFT
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_IDENTITY = Ruling(
    "permitted",
    "with the identity policy a mirror cannot tell where a record came from, and the mirrors form a loop",
)
_DEFAULT = Ruling("violation", "with the default policy a mirror does not copy what came from its target")


def _loops(known: Grounds) -> Ruled:
    by_default_policy = known.facts.looped_by_default_policy
    yield _DEFAULT, by_default_policy
    yield _IDENTITY, known.facts.counts.get("looped", 0) - by_default_policy


@dataclass(frozen=True)
class Looped(Question):
    """`default_policy_clusters`: targets of mirrors, of which none has the identity policy."""

    default_policy_clusters: Collection[str] = ()

    sums = {"looped": Sum(("home",), ("n",))}
    stories = {"looped": lambda r: f"{message(r)} came back to its own cluster, as {at(r)}"}
    rules = {"looped": VerdictRule("{messages were|message was} brought back by mirrors", _loops)}
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> Looped:
        """Sets the clusters, from the run's mirrors."""
        every, identity = ({m.target for m in run.mirrors if m.identity or some} for some in (True, False))
        return replace(self, default_policy_clusters=every - identity)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Each looped message once, at the first copy that came back."""
        back = messages.copies.filter("looped").sort("offset", "place")
        back = back.unique("part", keep="first", maintain_order=True)
        home = messages.known.names.cluster_of(pl.col("place") // SHIFT)
        found = back.select(*MESSAGE, "place", "offset", "n", home=home)
        yield Cases(
            "looped", found.with_columns(flag=pl.col("home").is_in(sorted(self.default_policy_clusters)))
        )
        yield SumPart("looped", found.select("home", "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The number that no identity policy explains."""
        yield facts(looped_by_default_policy=run.totals.cases["looped", None, True])
