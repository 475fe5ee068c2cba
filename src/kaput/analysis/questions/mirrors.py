"""Reports each mirror: its topics, what it copied, and how it ended. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kaput.analysis.engine.question import Question, Reported, facts, findings
from kaput.analysis.facts.mirrors import MirrorFacts
from kaput.analysis.questions.unmirrored import AFTER_END, CAUSES, DELETED
from kaput.core import SECOND
from kaput.evidence.comparisons import read_compared
from kaput.evidence.findings_mirrors import MirrorComparison, MirrorFindings
from kaput.verdict.facts import MirrorAtEnd

if TYPE_CHECKING:
    from kaput.analysis.run import Run


_ENDED = {"stopped": "it had been stopped", "fault": "a fault had ended it"}


class Mirrors(Question):
    """Reports mirrors, from the counts of unmirrored.py and its neighbors."""

    def report(self, run: Run) -> Iterator[Reported]:
        """The findings of each mirror, and whether its clusters are the same."""
        compared = [(mirror, _compared(run, mirror)) for mirror in run.mirrors]
        yield findings(mirrors=[_findings(run, mirror, found) for mirror, found in compared])
        yield facts(mirrors=[_facts(mirror, found) for mirror, found in compared])


def _compared(run: Run, mirror: MirrorFacts) -> MirrorComparison | None:
    """The comparison of a mirror's clusters; None if none is recorded."""
    found = read_compared(run.given.evidence.folder, mirror.source, mirror.target)
    if found is None:
        return None
    why = "" if found.status is not None else "; ".join(found.notes)
    return MirrorComparison(status=found.status, lost=found.lost, why=why)


def _facts(mirror: MirrorFacts, found: MirrorComparison | None) -> MirrorAtEnd:
    ended = _ENDED[mirror.ended] if mirror.ended else "" if mirror.started else "it was never started"
    if found is None or ended:
        return MirrorAtEnd(mirror.name, ended)
    return MirrorAtEnd(mirror.name, ended, found.status, found.lost, found.why)


def _findings(run: Run, mirror: MirrorFacts, compared: MirrorComparison | None) -> MirrorFindings:
    rows = run.sums["mirrored"].filter(mirror=mirror.name)
    counts = {fate: n for fate, n in rows.select("fate", "n").iter_rows() if n}
    missing = {cause: counts[cause] for cause in CAUSES if cause in counts}
    before = [cause for cause in CAUSES if cause != AFTER_END]
    since_ns = _number(rows.filter(rows["fate"].is_in(before))["first_ns"].min())
    deleted = rows.filter(fate=DELETED)
    return MirrorFindings(
        mirror=mirror.name,
        source=mirror.source,
        target=mirror.target,
        topics=sorted(run.names.topics[topic] for topic in mirror.topics),
        drained=mirror.drained,
        ended_ns=mirror.ended_ns,
        ended=mirror.ended,
        restarts=mirror.restarts,
        acknowledged=sum(counts.values()),
        mirrored=counts.get("mirrored", 0),
        unmirrored=sum(missing.values()),
        causes=missing,
        unmirrored_since_ns=since_ns,
        deleted_first_ns=_number(deleted["first_ns"].min()),
        deleted_last_ns=_number(deleted["last_ns"].max()),
        rpo_messages=sum(missing.get(cause, 0) for cause in before),
        rpo_s=_age_s(since_ns, mirror.ended_ns or run.given.manifest.ended_ns),
        mirrored_twice=_between(run, "mirrored_twice", mirror),
        reordered=_between(run, "mirror_reordered", mirror),
        merged=_between(run, "merged", mirror),
        conflicting_keys=_between(run, "conflicts", mirror, "keys") if run.given.keyed else None,
        own_last_keys=_between(run, "conflicts", mirror, "own_last") if run.given.keyed else None,
        looped=int(run.sums["looped"].filter(home=mirror.target)["n"].sum()),
        lag_max=mirror.lag_max,
        checkpoints=mirror.checkpoints,
        compared=compared,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _age_s(since_ns: int | None, end_ns: int | None) -> float | None:
    if since_ns is None:
        return 0.0
    return None if end_ns is None else max(end_ns - since_ns, 0) / SECOND


def _between(run: Run, name: str, mirror: MirrorFacts, column: str = "n") -> int:
    return int(run.sums[name].filter(source=mirror.source, target=mirror.target)[column].sum())
