"""suspects: producers whose acknowledgements cannot be Kafka's. Counted as messages: sent and acknowledged
while their partition had no running leader; and, where the client is the user's own program, acknowledged
without an offset (other than with acks=0), and lost without a cause in the cluster. librdkafka and Kafka's
own client know no offset of what a broker had already, so that such a loss may be Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Part, Question, Section, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.leaderless import leaderless
from kaput.analysis.runs.columns import ACKED
from kaput.evidence.findings_service import Suspect

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages
    from kaput.analysis.views.places import Places

_UNKNOWN = "unknown"
_SCHEMA = {"producer": pl.Int64, "n": pl.Int64}


@dataclass(frozen=True)
class Suspects(Question):
    """`windows`: places without a running leader, from when to when (ns)."""

    windows: Sequence[tuple[int, int, int]] = ()

    sums = {"acked_leaderless": Sum(("producer",), ("n",)), "lost_no_offset": Sum(("producer",), ("n",))}

    def before_messages(self, run: Run) -> Suspects:
        """When leaders were down."""
        given = run.given
        found = leaderless(given.faults, run.timeline, given.cluster_events, given.ended_ns)
        return replace(self, windows=[(run.names.code(place), from_, to) for place, from_, to in found])

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Both times of a message within one window; nothing is expected with acks=0."""
        attempts, dones = messages.times["attempts"], messages.times["dones"]
        rows = []
        asked = messages.stretches.filter(ACKED, ~pl.col("producer").is_in(list(messages.known.silent)))
        for place, from_ns, to_ns in self.windows:
            near = (pl.col("attempt_ns_last") >= from_ns) & (pl.col("done_ns_first") <= to_ns)
            mine = asked.filter(near, place=place)
            for producer, row, n in mine.select("producer", "row", "n").iter_rows():
                here = slice(row, row + n)
                inside = (attempts[here] >= from_ns) & (dones[here] >= from_ns) & (dones[here] <= to_ns)
                rows.append((producer, int(inside.sum())))
        yield Part("acked_leaderless", pl.DataFrame(rows, _SCHEMA, orient="row"))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Losses without an offset that nothing explains."""
        lost = places.lost.filter(pl.col("offset").is_null(), pl.col("cause") == "unexplained")
        yield Part("lost_no_offset", lost.select("producer", n=pl.lit(1, pl.Int64)))

    def report(self, run: Run) -> Iterator[Section]:
        """Those of whom there is either."""
        leaderless_, lost = (Counter(dict(run.sums[name].iter_rows())) for name in self.sums)
        clients = {producer: run.given.clients.get(producer, _UNKNOWN) for producer in {*leaderless_, *lost}}
        lost = Counter({one: n for one, n in lost.items() if clients[one] in ("command", _UNKNOWN)})
        yield findings(
            suspects=[
                _suspect(producer, clients[producer], leaderless_[producer], lost[producer])
                for producer in sorted({*+leaderless_, *+lost})
            ]
        )


def _suspect(producer: int, client: str, leaderless_: int, lost: int) -> Suspect:
    of = f"Suspect the client program of producer {producer} ({client}), not Kafka"
    reasons = {
        "sent and acknowledged while their partition had no running leader": leaderless_,
        "acknowledged without an offset, and lost without a cause in Kafka": lost,
    }
    counted = "; ".join(f"{n:,} messages were {what}" for what, n in reasons.items() if n)
    return Suspect(
        producer=producer,
        client=client,
        acked_leaderless=leaderless_,
        lost_without_offset=lost,
        story=f"{of}: {counted}.",
    )
