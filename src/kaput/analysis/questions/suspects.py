"""suspects: producers whose acknowledgements cannot be Kafka's. Defined in docs/GLOSSARY.md.

librdkafka and Kafka's own client report no offset for messages that a broker already had, so their losses of
this kind may be Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.serving import leaderless
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.core import counted
from kaput.evidence.findings_claims import Suspect

_UNKNOWN = "unknown"
_SCHEMA = {"producer": pl.Int64, "n": pl.Int64}


@dataclass(frozen=True)
class Suspects(Question):
    """`windows`: (place, from_ns, to_ns) without a running leader."""

    windows: Sequence[tuple[int, int, int]] = ()

    needs = {"places": ("contradicted_acks",)}
    sums = {"acked_leaderless": Sum(("producer",), ("n",)), "lost_no_offset": Sum(("producer",), ("n",))}

    def before_messages(self, run: Run) -> Suspects:
        given = run.given
        windows = leaderless(given.faults, run.leader_history, given.cluster_events, given.ended_ns)
        return replace(self, windows=[(run.names.code(place), from_, to) for place, from_, to in windows])

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Messages both attempted and acknowledged within one window, except with acks=0."""
        attempts, dones = messages.times["attempts"], messages.times["dones"]
        rows = []
        acked = messages.stretches.filter(ACKED, ~pl.col("producer").is_in(list(messages.known.acks_0)))
        for place, from_ns, to_ns in self.windows:
            near = (pl.col("attempt_ns_last") >= from_ns) & (pl.col("done_ns_first") <= to_ns)
            mine = acked.filter(near, place=place)
            for producer, row, n in mine.select("producer", "row", "n").iter_rows():
                here = slice(row, row + n)
                inside = (attempts[here] >= from_ns) & (dones[here] >= from_ns) & (dones[here] <= to_ns)
                rows.append((producer, int(inside.sum())))
        yield SumPart("acked_leaderless", pl.DataFrame(rows, _SCHEMA, orient="row"))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Unexplained losses without an offset."""
        lost = places.lost.filter(pl.col("offset").is_null(), pl.col("cause") == "unexplained")
        yield SumPart("lost_no_offset", lost.select("producer", n=pl.lit(1, pl.Int64)))

    def report(self, run: Run) -> Iterator[Reported]:
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
    reasoning = "; ".join(
        counted(n, f"{{messages were|message was}} {what}") for what, n in reasons.items() if n
    )
    return Suspect(
        producer=producer,
        client=client,
        acked_leaderless=leaderless_,
        lost_without_offset=lost,
        story=f"{of}: {reasoning}.",
    )
