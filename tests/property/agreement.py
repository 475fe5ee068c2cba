"""Whether the analysis agrees with the oracle on many histories in one folder, and on which it does not."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fakes.comparing import differences
from fakes.histories import History
from fakes.oracle import Oracle
from fakes.oracle_causes import Causes
from fakes.oracle_consequences import Consequences
from fakes.oracle_rows import who
from fakes.oracle_stores import Stores
from kaput.analysis.pipeline import analyse
from kaput.analysis.questions.kept import FATES
from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import NOTHING_KEPT, KeptFates
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from property.failovers import Failovers
from property.worlds import Part, World, together

Told = dict[str, Any]
Judge = Callable[[RunFolder], Findings]
# The oracle does not know how many of these are permitted (by contract, or by the time that a coordinator may
# take). Losses are compared with their causes.
_NOT_COMPARED = ("lost", "duplicate", "reordered", "hanging-transaction")


def parts_of(seed: int, numbers: Sequence[int]) -> list[Part]:
    """Every third history is a failover, the others are worlds."""
    return [Failovers(seed, number) if number % 3 == 0 else World(seed, number) for number in numbers]


def by_pipeline(spark: Any) -> Judge:
    """The analysis as `kaput analyze` does it."""

    def judge(folder: RunFolder) -> Findings:
        findings = analyse(check(folder), spark)
        for anomaly in findings.anomalies:
            assert len(anomaly.examples) == min(anomaly.count, 10), anomaly.name
        return findings

    return judge


def disagreement(parts: Sequence[Part], judge: Judge, apart: bool = True) -> Told:
    """Where findings differ from what the oracle expects: empty where they don't. `apart`: of each part by
    itself, else of all parts as one history.
    """
    history = together(parts)
    with tempfile.TemporaryDirectory(prefix="kaput-soak-") as path:
        folder = history.write(Path(path))
        found = summary(judge(folder)) | tables(folder, _modelled(parts))
    return differences(found, expected(parts) if apart else of_history(history) | {"causes": {}})


def _modelled(parts: Sequence[Part]) -> set[int]:
    """The producers whose losses have known causes."""
    numbered = [part for part in parts for _ in part.producers]
    return {number for number, part in enumerate(numbered) if isinstance(part, Failovers)}


def culprits(parts: Sequence[Part], judge: Judge) -> list[tuple[Part, Told]]:
    """The parts that disagree alone; where none does, the first of the fewest that do together."""
    told = disagreement(parts, judge)
    if not told:
        return []
    if len(parts) == 1:
        return [(parts[0], told)]
    half = len(parts) // 2
    found = culprits(parts[:half], judge) + culprits(parts[half:], judge)
    return found or [(parts[0], {"only together": [part.number for part in parts]} | told)]


_NOTHING = Oracle(History(groups={"g": True}))
# The anomalies that the oracle defines.
_DEFINED = {*_NOTHING.run_counts(), *_NOTHING.group_counts("g")}


def summary(findings: Findings) -> Told:
    """What is compared of the findings."""
    (lost,) = findings.anomaly("lost")
    anomalies = [anomaly for anomaly in findings.anomalies if anomaly.name in _DEFINED]
    return {
        "lost": {**lost.causes, "permitted": lost.permitted},
        "fates": {(f.outcome, f.stored): f.count for f in findings.fates},
        "unread": sorted((u.topic, u.partition) for u in findings.unread_partitions),
        "kept": _kept(findings),
        "run": {a.name: a.count for a in anomalies if a.group is None},
        "permitted": {
            a.name: a.permitted for a in anomalies if a.group is None and a.name not in _NOT_COMPARED
        },
        "groups": {
            g.group: {
                "fates": {(f.outcome, f.stored, f.delivered): f.count for f in g.fates},
                "after commit": g.redelivered_after_commit,
                "counts": {a.name: a.count for a in anomalies if a.group == g.group},
                "vanished": {**gone.causes, "permitted": gone.permitted},
                "permitted": {
                    a.name: a.permitted for a in anomalies if a.group == g.group and a.name != "vanished"
                },
            }
            for g, gone in zip(findings.groups, findings.anomaly("vanished"), strict=True)
        },
    }


def _kept(findings: Findings) -> Told:
    """What is compared of kept messages (fakes/oracle_stores.py)."""
    kept = findings.kept or NOTHING_KEPT
    by_replay = {
        name: findings.anomaly(name)[0].causes.get("replay", 0) for name in ("duplicate", "reordered")
    }
    assert kept.duplicates == by_replay["duplicate"]
    return {
        "fates": _fates(kept),
        "stores": {store.store: _fates(store) for store in kept.stores if store.kept},
        "lost after replay": kept.lost_after_replay,
        "in doubt": kept.in_doubt,
        "without a row": kept.without_row,
        "stored and left": kept.stored_and_left,
        "duplicates": kept.duplicates,
        "reordered": by_replay["reordered"],
    }


def _fates(kept: KeptFates) -> dict[str, int]:
    counts = {fate: getattr(kept, fate) for fate in FATES}
    assert sum(counts.values()) == kept.kept
    return {fate: n for fate, n in counts.items() if n}


def tables(folder: RunFolder, modelled: set[int]) -> Told:
    """What is compared of the tables that the analysis leaves: each producer's messages, and known causes."""
    ledger = pq.read_table(folder.analysis / "ledger").to_pylist()
    lost = pq.read_table(folder.analysis / "lost").to_pylist()
    by_producer: Counter[tuple[int, str, int]] = Counter()
    for row in ledger:
        assert row["seq_last"] - row["seq_first"] + 1 == row["messages"]
        by_producer[row["producer"], row["outcome"], row["stored"]] += row["messages"]
    return {
        "by producer": dict(by_producer),
        "causes": {(r["producer"], r["seq"]): r["cause"] for r in lost if r["producer"] in modelled},
    }


def expected(parts: Sequence[Part]) -> Told:
    """The same from the oracle, which judges each part by itself."""
    total: Told = {}
    first = 0
    causes: dict[tuple[int, int], str] = {}
    for part in parts:
        history = together([part])
        total = _sum(total, of_history(history, first))
        if isinstance(part, Failovers):
            causes |= {(first, seq): cause for seq, cause in part.causes.items()}
        first += len(part.producers)
    return total | {"causes": causes}


def of_history(history: History, first: int = 0) -> Told:
    """What the oracle finds in one history, whose producers are numbered from `first` on."""
    oracle = Oracle(history)
    why = Causes(oracle)
    follows = Consequences(oracle, why)
    follows_of_run = follows.of_run()
    causes, permitted = why.lost()
    stored = (
        (s["producer"] + first, s["outcome"], oracle.copies[s["producer"], s["seq"]]) for s in oracle.sends
    )
    return {
        "lost": {**causes, "permitted": permitted},
        "fates": dict(oracle.fates()),
        "unread": sorted(oracle.unread_partitions()),
        "kept": Stores(oracle).told(),
        "run": oracle.run_counts(),
        "permitted": {
            name: follows_of_run.get(name, 0) for name in oracle.run_counts() if name not in _NOT_COMPARED
        }
        | {name: oracle.run_counts()[name] for name in ("recovered", "removed")}
        | oracle.mirrors.permitted(),
        "groups": {
            group: {
                "fates": dict(oracle.group_fates(group)),
                "after commit": oracle.redelivered_after_commit(group),
                "counts": oracle.group_counts(group),
                "vanished": {**gone, "permitted": allowed},
                "permitted": permitted_of(oracle, follows, group),
            }
            for group in oracle.groups
            for gone, allowed in [why.vanished(group)]
        },
        "by producer": dict(Counter(stored)),
    }


def permitted_of(oracle: Oracle, follows: Consequences, group: str) -> Told:
    """How many cases of each of a group's anomalies are permitted, for any reason."""
    counts, found = oracle.group_counts(group), follows.of_group(group)
    window = counts["redelivered"] - oracle.redelivered_after_commit(group)
    mirrors = oracle.mirrors
    moved, back = set(map(who, mirrors.left_behind(group))), mirrors.permitted_back(group)
    moved |= back & set(map(who, oracle.unseen(group)))
    early = oracle.too_early(group)
    past = [send for send in oracle.skipped(group) if who(send) not in moved]
    other = {"unseen": early + len(moved) + len(past), "redelivered": window}
    other["translated-ahead"] = len(back)
    other["translated-behind"] = counts["translated-behind"]
    names = [name for name in counts if name != "vanished"]
    return {name: found.get(name, 0) + other.get(name, 0) for name in names}


def _sum(one: Any, other: Any) -> Any:
    """Counts added, lists joined, whatever is on one side alone taken."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict):
        return {
            key: _sum(one.get(key), other.get(key)) for key in [*one, *(k for k in other if k not in one)]
        }
    return sorted(one + other) if isinstance(one, list) else one + other
