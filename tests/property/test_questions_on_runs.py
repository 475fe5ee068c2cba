"""The questions on runs against the oracle: no Spark, so that many histories cost little.

Every history is judged three times: as its tables stand, with every table cut into small pieces, and in
another order of rows, all of which must find the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from fakes.comparing import differences
from fakes.histories import History, write_table
from fakes.oracle import Oracle
from kaput.analysis import inputs
from kaput.analysis.names import SHIFT
from kaput.analysis.questions import commits, fates, offsets, order, polls
from kaput.analysis.questions.messages import messages, unread
from kaput.analysis.runs.clocks import encode_deliveries
from kaput.analysis.runs.run import encode
from kaput.analysis.runs.tables import FRAMES, read, units
from kaput.evidence.reading import Evidence, check
from property.agreement import parts_of
from property.worlds import together

SEED = 12
_BIG = ("sends", "log", "deliveries")
_EVENTS = {"group": pl.Int64, "member": pl.Int64, "topic": pl.Int64, "kind": pl.String}
_EVENTS |= {"partition": pl.Int64, "offset": pl.Int64, "at_ns": pl.Int64}


@pytest.mark.parametrize("way", ["whole", "cut", "shuffled"])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_questions_agree_with_the_oracle(first: int, way: str, tmp_path: Path) -> None:
    """Fates and the count of every anomaly, of the run and of each group."""
    history = together(parts_of(SEED, range(first, first + 20)))
    expected, folder = _expected(history), history.write(tmp_path)
    if way != "whole":
        random = Random(first)
        for table in _BIG:
            rows = list(history.rows[table])
            if way == "shuffled":
                random.shuffle(rows)
            for number in range(0, max(1, len(rows)), 7):
                write_table(folder, table, rows[number : number + 7], f"part-{number}")
    evidence = check(folder)
    found = _Judged(inputs.read(evidence), evidence).summary(history)
    assert differences(found, expected) == {}


class _Judged:
    """A small folder judged on runs."""

    def __init__(self, given: inputs.Inputs, evidence: Evidence) -> None:
        self.given, self.names = given, given.names
        log = self._rows(evidence, "log").sort("place", "offset")
        self.events = self._events()
        self.log = encode(log, ["producer", "place", "epoch", "intact"])
        self.deliveries = encode_deliveries(self._rows(evidence, "deliveries"), self.events)
        self.sends = self._rows(evidence, "sends")
        self.messages = messages(self.sends, self.log, self.deliveries)

    def _rows(self, evidence: Evidence, table: str) -> pl.DataFrame:
        found = [read(unit, self.names) for unit in units(evidence, table)]
        return pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(FRAMES[table], pl.Int64))

    def _events(self) -> pl.DataFrame:
        names, rows = self.names, self.given.evidence.rows("group_events")
        for row in rows:
            row["group"], row["member"] = names.groups.index(row["group"]), names.members.index(row["member"])
            row["topic"] = None if row["topic"] is None else names.topics.index(row["topic"])
        events = pl.DataFrame([{name: row[name] for name in _EVENTS} for row in rows], schema=_EVENTS)
        return events.with_columns(place=pl.col("topic") * SHIFT + pl.col("partition"))

    def summary(self, history: History) -> dict[str, Any]:
        """As `_expected` has it."""
        names, given = self.names, self.given
        handed = pl.concat([f.select("place") for f in (self.sends, self.log, self.deliveries)]).drop_nulls()
        known = {*handed["place"], *(names.code(p) for p in (*given.expected_places, *given.ends))}
        places = pl.DataFrame({"place": sorted(known)}).with_columns(topic=pl.col("place") // SHIFT)
        complete = [names.code(place) for place, (end, read_to) in given.ends.items() if end == read_to]
        stretches = self.messages.stretches.with_columns(unread=unread(complete, places))
        found = {(o, s): n for o, s, n in fates.fates(stretches).select("outcome", "stored", "n").rows()}
        copies = self.messages.copies
        run = {
            "lost": found.get(("acked", "0"), 0),
            "duplicate": sum(n for (_, stored), n in found.items() if stored == "n"),
            "recovered": sum(found.get(("unknown", stored), 0) for stored in "1n"),
            "ghost": sum(found.get(("failed", stored), 0) for stored in "1n"),
            "phantom": _sum(copies.filter(~pl.col("sent"))),
            "corrupt": _sum(offsets.corrupt(self.log, self.deliveries)),
            "reordered": _sum(order.reordered(copies)),
            "inconsistent-offset": _sum(offsets.inconsistent(stretches, self.log, self.deliveries)),
        }
        return {"fates": found, "run": run, "groups": self._groups(stretches, history)}

    def _groups(self, stretches: pl.DataFrame, history: History) -> dict[str, Any]:
        commit = self.events.filter(kind="committed").drop_nulls(["place", "offset"])
        commit = commit.select("group", "place", "offset", "at_ns", "member")
        assigned = self.events.filter(kind="assigned").drop_nulls("place").select("group", "place").unique()
        skips, back = polls.steps(self.deliveries, self.log)
        again = commits.redelivered(self.deliveries, commit)
        begun = commits.positions(self.deliveries, self.events)
        ahead = commits.ahead(self.log, self.deliveries, commit, begun)
        odd = polls.unassigned(self.deliveries, assigned)
        told: dict[str, Any] = {}
        for number, group in enumerate(self.names.groups):
            topics = [self.names.topics.index(t) for t in history.subscriptions.get(group, self.names.topics)]
            read_by = _cells(fates.group_fates(stretches.filter(pl.col("topic").is_in(topics)), number))
            unseen = sum(n for (_, stored, times), n in read_by.items() if stored in "1n" and times == "0")
            told[group] = {
                "fates": _cells(fates.group_fates(stretches, number)),
                "after commit": _sum(again.filter(pl.col("committed"), group=number)),
                "counts": {
                    "unseen": unseen if history.groups[group] else 0,
                    "redelivered": _sum(again.filter(group=number)),
                    "poll-skip": skips.filter(group=number).height,
                    "nonmonotonic-poll": back.filter(group=number).height,
                    "commit-ahead": ahead.filter(group=number).height,
                    "unassigned-delivery": _sum(odd.filter(group=number)),
                },
            }
        return told


def _cells(found: pl.DataFrame) -> dict[tuple[str, str, str], int]:
    return {(o, s, d): n for o, s, d, n in found.select("outcome", "stored", "delivered", "n").rows()}


def _sum(found: pl.DataFrame) -> int:
    return int(found["n"].sum())


def _expected(history: History) -> dict[str, Any]:
    oracle = Oracle(history)
    groups = {
        group: {
            "fates": _plain(oracle.group_fates(group)),
            "after commit": oracle.redelivered_after_commit(group),
            "counts": oracle.group_counts(group),
        }
        for group in oracle.groups
    }
    return {"fates": _plain(oracle.fates()), "run": oracle.run_counts(), "groups": groups}


def _plain(counts: Counter[Any]) -> dict[Any, int]:
    return {key: n for key, n in counts.items() if n}
