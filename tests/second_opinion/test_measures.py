"""Latencies, rates, tables, timelines, counts and sentences of recorded runs: another value is called false.
That the right ones are not is in test_recorded_runs.py.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from kaput.report.timeline.reading import TimelineData
from second_opinion.counts import Counts
from second_opinion.judging import findings_of, reports_of, timeline_of
from second_opinion.measures import Measures
from second_opinion.opinion import FALSE, Examiner
from second_opinion.raw import SECOND, Row
from second_opinion.sentences import Sentences
from second_opinion.statements import Statements
from second_opinion.timeline import Timeline

RECORDED = Path(__file__).parents[1] / "recorded"
_MADE = TemporaryDirectory(prefix="kaput-measures-")  # removed when the worker ends
Path_ = tuple[str | int, ...]


@cache
def judged(name: str) -> tuple[Examiner, Row]:
    """A copy of a recorded run, as the second opinion reads it, and its findings."""
    folder = Path(_MADE.name) / name
    shutil.copytree(RECORDED / name, folder)
    return Examiner(folder), findings_of(folder)


def called_false(name: str, found: Row, *parts: type[Measures] | type[Counts]) -> set[str]:
    examiner, _ = judged(name)
    examiner.findings = found
    every = (one for part in parts for one in part(examiner).all())
    return {one.claim for one in every if one.verdict == FALSE}


def _more(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + (1 if value < SECOND else SECOND)
    if isinstance(value, list):
        return value[:-1]
    return None if value is None else {} if isinstance(value, dict) else f"{value} or not"


# Fields of which every one is examined that has a value (`*`: the first row or key with one).
FIELDS: dict[tuple[str, type[Measures] | type[Counts]], tuple[str, ...]] = {
    ("unclean-election", Measures): (
        "latency_ms ack *", "latency_ms around_faults * ack *", "rates sent_per_s", "rates acked_per_s",
        "rates ordered_per_s", "rates means * seconds", "rates means * sent_per_s",
        "rates means * acked_per_s", "rates slumps * longest_s", "rates slumps * below_per_s",
        "availability * load_s", "availability * within_timeout_share", "partition_tables * at_ns",
        "partition_tables * partitions", "partition_tables * partitions * isr",
        "partition_tables * partitions * replicas", "partition_tables * partitions * leader_down",
        "partition_tables * partitions * created", "faults * target", "faults * brokers",
        "faults * effective_ns", "faults * healed_ns", "faults * injected_ns", "faults * proof",
        "faults * affected_share",
    ),
    ("unclean-election", Counts): (
        "fates * count", "totals unread", "totals unknown", "totals log_records", "totals stored_messages",
        "high_watermark_arithmetic end_offsets", "high_watermark_arithmetic difference",
        "high_watermark_arithmetic holes", "leader_changes * offsets_used_twice",
        "leader_changes * deposed_acks_after_election", "leader_changes * old_leader_in_sync", "run kafka",
        "run ended_ns", "features * levels *",
    ),
    ("zombie-member", Measures): (
        "latency_ms end_to_end *", "latency_ms around_faults * end_to_end *", "rates means * delivered_per_s",
        "groups * end_to_end_ms *", "groups * delivered_per_s", "groups * lag max", "groups * lag final",
        "groups * drained", "groups * isolation", "groups * type",
    ),
    ("zombie-member", Counts): (
        "groups * fates * count", "groups * redelivered_after_commit", "rebalances * redelivered",
        "rebalances * members",
    ),
    ("hanging-transaction", Counts): (
        "transactions longest_standstill_ms", "transactions standstill_topic",
        "client_errors * messages *", "client_errors * transactions *", "client_errors * client",
        "totals uncommitted",
    ),
    ("dc1-dies-and-returns", Counts): ("plan groups * read_twice", "plan groups * skipped"),
}  # fmt: skip


def _places(value: Any, names: list[str], path: Path_ = ()) -> Iterator[Path_]:
    """Where the fields of a name are in a document."""
    if not names:
        yield path
        return
    keys = [*(value if isinstance(value, dict) else range(len(value)))] if names[0] == "*" else [names[0]]
    for key in keys:
        yield from _places(value[key], names[1:], (*path, key))


def _changed(found: Row, path: Path_) -> Row | None:
    """The findings with another value there; None if there is none."""
    changed: Any = copy.deepcopy(found)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    if holder[path[-1]] in (None, [], {}):
        return None
    holder[path[-1]] = _more(holder[path[-1]])
    return changed  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "part", "field"), [(*of, field) for of, fields in FIELDS.items() for field in fields]
)
def test_another_value_is_called_false(name: str, part: type[Measures] | type[Counts], field: str) -> None:
    found = judged(name)[1]
    changed = next(one for path in _places(found, field.split()) if (one := _changed(found, path)))
    assert called_false(name, changed, part)


@pytest.mark.parametrize(
    ("name", "anomaly", "told"),
    [
        ("leader-kill-lagging-acks-1", "lost", {"permitted": 0}),
        (
            "leader-kill-lagging-acks-all",
            "lost",
            {"count": 3, "permitted": 3, "causes": {"deposed-leader": 3}},
        ),
        ("leader-kill-lagging-acks-all", "phantom", {"count": 1, "permitted": 1}),
        ("leader-kill-lagging-acks-all", "duplicate", {"permitted": 8}),
        ("minority-partition-acks-1", "reordered", {"permitted": 39}),
    ],
)
def test_another_permitted_count_is_called_false(name: str, anomaly: str, told: dict[str, Any]) -> None:
    found = copy.deepcopy(judged(name)[1])
    assert not [claim for claim in called_false(name, found, Counts) if claim.endswith(": permitted")]
    next(row for row in found["anomalies"] if row["name"] == anomaly).update(told)
    assert f"anomaly {anomaly}: the run: permitted" in called_false(name, found, Counts)


def _first(rows: Sequence[Any], keep: Callable[[Any], bool], **other: Any) -> list[Any]:
    """The rows with other values in the first of a kind."""
    number = next(n for n, row in enumerate(rows) if keep(row))
    return [row._replace(**other) if n == number else row for n, row in enumerate(rows)]


def _step(shown: TimelineData, name: str) -> TimelineData:
    number = next(n for n, row in enumerate(shown.table.rows) if row[name])
    rows = [{**row, name: (row[name] or 0) + (n == number)} for n, row in enumerate(shown.table.rows)]
    return replace(shown, table=shown.table._replace(rows=rows))


TIMELINES: dict[str, tuple[str, Callable[[TimelineData], TimelineData]]] = {
    "a message more": ("unclean-election", lambda t: _step(t, "acked")),
    "lost later": ("unclean-election", lambda t: _step(t, "lost")),
    "a longer acknowledgement": ("unclean-election", lambda t: _step(t, "ack_max_ms")),
    "another leader": (
        "unclean-election",
        lambda t: replace(t, leaders=_first(t.leaders, lambda b: b.kind == "broker 1", kind="broker 2")),
    ),
    "a broker that is back and not registered leads": (
        "dc1-dies-and-returns",
        lambda t: replace(t, leaders=_first(t.leaders, lambda b: b.text.endswith("down"), kind="broker 1")),
    ),
    "another ISR": (
        "unclean-election",
        lambda t: replace(t, isrs=_first(t.isrs, lambda b: True, text="1, 2, 3, 4")),
    ),
    "another owner": (
        "zombie-member",
        lambda t: replace(t, owners=_first(t.owners, lambda b: True, kind="member-9")),
    ),
    "a longer fault": (
        "zombie-member",
        lambda t: replace(t, faults=_first(t.faults, lambda b: b.kind == "fault", end=t.end_s)),
    ),
    "a greater lag": ("zombie-member", lambda t: replace(t, lag=_first(t.lag, lambda p: True, lag=10**6))),
    "a broker that stopped is left out": (
        "unclean-election",
        lambda t: replace(t, marks=[m for m in t.marks if m.kind != "stopped"]),
    ),
    "a change of an ISR is left out": (
        "unclean-election",
        lambda t: replace(t, marks=[m for m in t.marks if m.kind != "ISR change"]),
    ),
    "an election is left out": (
        "unclean-election",
        lambda t: replace(t, marks=[m for m in t.marks if m.kind != "election"]),
    ),
    "a sample of lag is left out": ("zombie-member", lambda t: replace(t, lag=t.lag[1:])),
    "a deposed leader is left out": (
        "leader-isolated-acks-1",
        lambda t: replace(t, leaders=[b for b in t.leaders if not b.row.endswith(" deposed")]),
    ),
    "a longer wait of clients that were moved": (
        "dc1-dies-and-returns",
        lambda t: replace(t, moves=_first(t.moves, lambda b: b.kind == "RTO", end=t.end_s)),
    ),
    "a step of the plan is left out": ("dc1-dies-and-returns", lambda t: replace(t, moves=t.moves[1:])),
    "a greater lag of a mirror": (
        "mirror",
        lambda t: replace(t, mirror_lag=_first(t.mirror_lag, lambda p: True, lag=10**6)),
    ),
    "a rebalance is left out": (
        "zombie-member",
        lambda t: replace(t, marks=[m for m in t.marks if m.kind != "rebalance"]),
    ),
    "an earlier election": (
        "unclean-election",
        lambda t: replace(t, marks=_first(t.marks, lambda m: m.kind == "election", at=0.0)),
    ),
}


@pytest.mark.parametrize("mutant", TIMELINES)
def test_another_timeline_is_called_false(mutant: str) -> None:
    name, change = TIMELINES[mutant]
    examiner, found = judged(name)
    examiner.findings = found
    right = timeline_of(examiner.tables.folder, found)
    assert all(one.verdict != FALSE for one in Timeline(examiner, right).all())
    assert any(one.verdict == FALSE for one in Timeline(examiner, change(right)).all())


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("until 22.3 s", "until 21.3 s"),
        ("was in effect", "had been in effect"),
        ("took effect 24.4 s", "took effect 23.4 s"),
        ("(broker 2)", "(broker 3)"),
        ("broker 1 led", "broker 2 led"),
        ("broker 1 led", "broker 1 was in the ISR of"),
        ("and hit orders/0", "and hit orders/7"),
        ("3-kill (broker 1) took effect 24.4 s after it began;", "it was the 3-kill;"),
    ],
)
def test_another_reason_for_a_cause_is_called_false(words: str, others: str) -> None:
    """In its claim, and in the standstill that has its words."""
    examiner, right = judged("unclean-election")
    for rows, name in (("claims", "why"), ("standstills", "cause")):
        found = copy.deepcopy(right)
        for row in found[rows]:
            row[name] = (row[name] or "").replace(words, others) or row[name]
        assert found != right
        examiner.findings = found
        assert any(one.verdict == FALSE for one in Statements(examiner).all())


def test_rows_behind_counts_are_examined() -> None:
    """A lost message that was not, and a redelivery at another offset."""
    for name, anomaly, key in (
        ("unclean-election", "lost", "seq"),
        ("zombie-member", "redelivered", "offset"),
    ):
        found = copy.deepcopy(judged(name)[1])
        rows = (row for one in found["anomalies"] if one["name"] == anomaly for row in one["examples"])
        next(rows)[key] = 0
        assert called_false(name, found, Counts)


RUNS = sorted(path.parent.name for path in RECORDED.glob("*/manifest.json"))
_SOON = {name for name, _ in FIELDS}


@cache
def reported(name: str) -> tuple[str, str]:
    """What its reports say, in a terminal and on the page."""
    return reports_of(Path(_MADE.name) / name, judged(name)[1])


def false_sentences(name: str, text: str) -> set[str]:
    examiner, found = judged(name)
    examiner.findings = found
    return {one.claim for one in Sentences(examiner, text).all() if one.verdict == FALSE}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in _SOON)) for name in RUNS]
)
def test_no_sentence_of_a_report_is_false(name: str) -> None:
    for text in reported(name):
        assert false_sentences(name, text) == set()


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("unclean-election", ""),  # of what was sent
        ("unclean-election", "16,000 sent, "),
        ("unclean-election", "16,000 messages sent, "),
        ("unclean-election", "16,000 acknowledged, "),
        ("unclean-election", "no promise was broken, and "),
        ("unclean-election", "Nothing at all was acknowledged for "),
        ("unclean-election", "it waited "),
        ("unclean-election", "for client and brokers. "),
        ("unclean-election", "leader elected after "),
        ("unclean-election", "longest silence after it "),
        ("unclean-election", "affected "),
        ("unclean-election", "loss window "),
        ("dc1-dies-and-returns", "22,435 acknowledged, "),
        ("dc1-dies-and-returns", "acknowledged for 5.2 s in "),
        ("dc1-dies-and-returns", "standstills; the longest: "),
        ("zombie-member", "was delivered nothing new of orders/"),
        ("zombie-member", "it waited "),
        ("hanging-transaction", "it waited "),
    ],
)
def test_another_number_in_a_sentence_is_called_false(name: str, before: str) -> None:
    """The first one after these words, in the terminal."""
    text, _ = reported(name)
    found = re.search(re.escape(before) + r"(\d[\d,]*)", text)
    assert found is not None
    other = f"{int(found[1].replace(',', '')) + 1:,}"
    assert false_sentences(name, text[: found.start(1)] + other + text[found.end(1) :])


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("until a leader was elected", "until old records had been read again"),
        ("until a leader was elected", "until the moon was full"),
        ("until a leader was elected", "until min.insync.replicas changed"),
    ],
)
def test_other_words_for_a_wait_are_called_false(words: str, others: str) -> None:
    for text in reported("unclean-election"):
        assert false_sentences("unclean-election", text.replace(words, others, 1))


def test_numbers_of_another_fault_are_called_false() -> None:
    """Of the last fault's silence in the line of the first one."""
    for text in reported("unclean-election"):
        changed = re.sub(r"(longest silence after it ?)46,689", r"\g<1>22,271", text, count=1)
        assert changed != text and false_sentences("unclean-election", changed)


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (r"(3 fence\s*)9\.1", r"\g<1>9.3"),
        (r"(3 fence\s*9\.1 s\s*)1\.1", r"\g<1>2.1"),
        ("5,625 after-end", "5,625 behind"),
        (r"dc1->dc2 was killed at [\d:.]+", ""),
        ("13,806 records after", "13,807 records after"),
    ],
)
def test_other_words_for_a_plan_or_a_mirror_are_called_false(words: str, others: str) -> None:
    for text in reported("dc1-dies-and-returns"):
        changed = re.sub(words, others, text, count=1)
        assert changed != text and false_sentences("dc1-dies-and-returns", changed)


@pytest.mark.parametrize("words", ["appended 13 records after", "was killed at 12:00:00.000"])
def test_a_sentence_on_the_wrong_mirror_is_called_false(words: str) -> None:
    """Nothing of that happened to this one."""
    (mirror,) = judged("mirror")[1]["mirrors"]
    assert (mirror["merged"], mirror["ended_ns"]) == (0, None)
    text = reported("mirror")[0]
    assert false_sentences("mirror", text) == set()
    assert false_sentences("mirror", f"{text} {mirror['mirror']} {words}")


def test_each_kind_of_sentence_is_in_some_report() -> None:
    """In a terminal and on a page: what no sentence matches cannot be false."""
    for page in range(2):
        seen: set[str] = set()
        for name in sorted(_SOON):
            examiner, found = judged(name)
            examiner.findings = found
            sentences = Sentences(examiner, reported(name)[page])
            assert list(sentences.all())
            seen |= {pattern for pattern, n in sentences.matched.items() if n}
            looked_for = set(sentences.matched)
        assert looked_for - seen == set()


def test_a_reason_that_a_report_leaves_out_is_called_false() -> None:
    text, _ = reported("unclean-election")
    assert false_sentences("unclean-election", text.replace("no promise was broken", "nothing was lost"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in _SOON)) for name in RUNS]
)
def test_rows_of_the_ledger_are_those_of_their_messages(name: str) -> None:
    """Each message is in one row, which has its outcome, its copies, its deliveries and its times."""
    tables = judged(name)[0].tables
    files = sorted((tables.folder / "analysis" / "ledger").glob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    sends = {(s["producer"], s["seq"]): s for s in tables.rows("sends")}
    intact = [d for d in tables.rows("deliveries") if d["intact"]]
    handed = Counter((d["group"], d["producer"], d["seq"]) for d in intact)
    assert sum(row["messages"] for row in rows) == len(sends)
    for row in rows:
        mine = [sends[row["producer"], seq] for seq in range(row["seq_first"], row["seq_last"] + 1)]
        first, last = mine[0], mine[-1]
        times = [first["attempt_ns"], last["attempt_ns"], first["offset"]]
        assert [row["attempt_ns_first"], row["attempt_ns_last"], row["offset_first"]] == times, row
        for send in mine:
            shown = [r for r in tables.home_records(send) if r.get("visible") is not False]
            fate = send["outcome"], send["error"], len(shown)
            assert fate == (row["outcome"], row["error"], row["stored"]), row
            for group, often in (row.get("delivered") or {}).items():
                assert handed[group, send["producer"], send["seq"]] == often, row
