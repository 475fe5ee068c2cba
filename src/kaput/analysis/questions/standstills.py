"""hanging-transaction: a last stable offset that stood still below the high watermark for longer than
transaction.timeout.ms. Counted once for each partition and offset; behind whom, the log tells.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl

from kaput.analysis.names import Place
from kaput.analysis.questions.messages import NAMED
from kaput.analysis.runs.cutting import PLACES, meeting, overlay

# From and to which sample (ns), and whether no longer than permitted.
STANDSTILLS: Mapping[str, type[pl.DataType]] = {
    **dict.fromkeys(("place", "offset", "n", "at_ns", "to_ns"), pl.Int64),
    "flag": pl.Boolean,
}
_NEVER = 2**62  # no offset
STABLE, WATERMARK = "last_stable_offset", "high_watermark"  # samples, with the labels topic and partition


class Standstill(NamedTuple):
    """A last stable offset that did not move from one sample to another (ns)."""

    place: Place
    offset: int
    from_ns: int
    to_ns: int

    @property
    def ns(self) -> int:
        """How long."""
        return self.to_ns - self.from_ns


def find(samples: Iterable[Mapping[str, Any]]) -> list[Standstill]:
    """All of them, of any length above 0, in the order of places and times."""
    found: list[Standstill] = []
    for place, (stable, watermark) in sorted(_by_place(samples).items()):
        since: int | None = None
        times = sorted(stable.keys() & watermark.keys())
        for one, two in pairwise(times):
            held = (
                stable[one] == stable[two] and stable[one] < watermark[one] and stable[two] < watermark[two]
            )
            since = (one if since is None else since) if held else None
            if since is not None:
                if found and found[-1][:3] == (place, stable[one], since):
                    found.pop()
                found.append(Standstill(place, stable[one], since, two))
    return found


def _by_place(
    samples: Iterable[Mapping[str, Any]],
) -> Mapping[Place, tuple[dict[int, int], dict[int, int]]]:
    """By partition the last stable offset, and the high watermark, at each moment."""
    found: defaultdict[Place, tuple[dict[int, int], dict[int, int]]] = defaultdict(lambda: ({}, {}))
    for row in samples:
        place = _place(dict(row["labels"] or ())) if row["name"] in (STABLE, WATERMARK) else None
        if place is not None and 0 <= row["value"] < _NEVER:
            found[place][row["name"] == WATERMARK][row["at_ns"]] = round(row["value"])
    return found


def _place(labels: Mapping[str, str | None]) -> Place | None:
    """The partition that a sample is of; None where its labels name none."""
    topic, partition = labels.get("topic"), labels.get("partition") or ""
    known = topic is not None and re.fullmatch("[0-9]{1,9}", partition)
    return (topic, int(partition)) if topic is not None and known else None


def hanging(held: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """STANDSTILLS with the message that is at their offsets, the least if there are several: the first of
    the oldest open transaction.
    """
    parts, there = overlay([held, meeting(log.filter(NAMED), held, PLACES)], PLACES)
    who = there.sort("producer", "seq").unique("part", keep="first").select("part", "producer", "seq")
    return parts.join(who, on="part", how="left").drop("part")
