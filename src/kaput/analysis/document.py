"""Builds the findings of a run from its totals: each question reports its sections, the verdict judges them.

No Spark and no counting: every number here was counted by a question, or is a sum or difference of those.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kaput.analysis.engine.examples import SHOWN
from kaput.analysis.engine.question import Question, Row
from kaput.analysis.questions.fates import FateCounts
from kaput.analysis.run import Run
from kaput.errors import AccountingError
from kaput.evidence.findings import Anomaly, Example, FaultFindings, Findings, GroupFindings
from kaput.evidence.findings import Run as RunFindings
from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES
from kaput.verdict.facts import Displaced, Facts, GroupFacts, Loss
from kaput.verdict.judge import Judgement, judge

Sections = Mapping[tuple[str, int | str | None], dict[str, Any]]


def findings(run: Run, questions: Sequence[Question]) -> Findings:
    """The whole document, judged. Raises AccountingError if two counts of the same thing differ."""
    _check(run, questions)
    given, sections = run.given, _sections(run, questions)
    facts = _facts(run, sections)
    _check_excused(facts)
    rules = {name: rule for question in questions for name, rule in question.rules.items()}
    judgement = judge(facts, given.scenario, rules)
    return Findings(
        run=run_of(run),
        verdict=judgement.verdict,
        promise=judgement.promise,
        reasons=judgement.reasons,
        notes=[*run.given.manifest.notes, *judgement.notes, *_suspect_notes(sections), *_ignored_notes(run)],
        expectations=list(judgement.expectations),
        groups=[GroupFindings(**sections["group", index]) for index in run.groups],
        anomalies=_anomalies(run, facts, judgement, _stories(questions)),
        faults=[
            FaultFindings(
                id=one.id,
                fault=one.fault,
                target=one.target,
                brokers=list(one.brokers),
                bit=one.bit,
                proof=one.proof,
                injected_ns=one.injected_ns,
                effective_ns=one.effective_ns,
                healed_ns=one.healed_ns,
                event=one.event,
                event_ns=one.event_ns,
                noticed_ns=one.noticed_ns,
                **sections["fault", one.id],
            )
            for one in given.faults
        ],
        **sections["findings", None],
    )


def _sections(run: Run, questions: Iterable[Question]) -> Sections:
    """The fields that all questions report, by section and key. Concatenates lists reported by several."""
    found: dict[tuple[str, int | str | None], dict[str, Any]] = defaultdict(dict)
    for section, key, fields in (part for question in questions for part in question.report(run)):
        for name, value in fields.items():
            here = found[section, key]
            here[name] = here[name] + value if name in here else value
    return found


def _facts(run: Run, sections: Sections) -> Facts:
    counts = {name: run.totals.counted(name) for name in RUN_ANOMALIES}
    groups = [
        GroupFacts(
            counts={name: run.totals.counted(name, index) for name in GROUP_ANOMALIES},
            **sections["group_facts", index],
        )
        for index in run.groups
    ]
    return Facts(counts=counts, groups=groups, **sections["facts", None])


def _check(run: Run, questions: Iterable[Question]) -> None:
    """Compares counts of the same thing. Raises AccountingError naming each pair that differs."""
    wrong = [
        f"{what} {one:,} by {how[0]} and {other:,} by {how[1]}"
        for question in questions
        for what, one, other, how in question.checks(run)
        if one != other
    ]
    if wrong:
        raise AccountingError(f"the account does not balance: {'; '.join(wrong)}")


def _check_excused(facts: Facts) -> None:
    """Checks that no more cases are excused than counted. Raises AccountingError."""
    counts: dict[tuple[str, str | None], int] = {(name, None): n for name, n in facts.counts.items()}
    excused: Counter[tuple[str, str | None]] = Counter()
    for group in facts.groups:
        counts |= {(name, group.group): n for name, n in group.counts.items()}
        excused["unseen", group.group] += group.too_early + group.maybe_too_early + group.moved_away
    for one in facts.consequences:
        excused[one.name, one.group] += one.count
    wrong = [
        f"{name} of {group or 'the run'} that is excused: {n:,} of {counts[name, group]:,}"
        for (name, group), n in excused.items()
        if n > counts[name, group]
    ]
    if wrong:
        raise AccountingError(f"the account does not balance: {'; '.join(wrong)}")


def run_of(run: Run) -> RunFindings:
    """The run's id, scenario, seed, Kafka version and times."""
    manifest, scenario = run.given.manifest, run.given.scenario
    return RunFindings(
        id=str(manifest.run_id),
        folder=run.given.evidence.folder.name,
        scenario=manifest.scenario,
        title=scenario.title if scenario else "",
        varied=manifest.varied,
        seed=manifest.seed,
        kafka=manifest.versions.get("kafka"),
        mode=manifest.mode,
        started_ns=manifest.started_ns,
        ended_ns=manifest.ended_ns,
    )


def _stories(questions: Iterable[Question]) -> dict[str, Callable[[Row], str]]:
    return {name: story for question in questions for name, story in question.stories.items()}


def _anomalies(
    run: Run, facts: Facts, judgement: Judgement, stories: Mapping[str, Callable[[Row], str]]
) -> list[Anomaly]:
    examples: dict[tuple[str, int | None], list[Example]] = defaultdict(list)
    for row in run.totals.examples:
        examples[row["name"], row["grp"]].append(_example(row, stories[row["name"]]))
    found = [
        Anomaly(
            name=name,
            count=facts.counts[name],
            permitted=judgement.permitted.get((name, None), 0),
            causes=_causes(name, facts),
            extra_copies=FateCounts(run).extra_copies() if name == "duplicate" else None,
            examples=examples[name, None][:SHOWN],
        )
        for name in RUN_ANOMALIES
    ]
    for name in GROUP_ANOMALIES:
        found += [
            Anomaly(
                name=name,
                count=group.counts[name],
                permitted=judgement.permitted.get((name, group.group), 0),
                group=group.group,
                causes=_by_cause(group.vanished) if name == "vanished" else {},
                examples=examples[name, index][:SHOWN],
            )
            for index, group in enumerate(facts.groups)
        ] or [Anomaly(name=name, count=0, permitted=0)]
    return found


def _example(row: Row, story: Callable[[Row], str]) -> Example:
    fields = ("producer", "seq", "topic", "partition", "offset")
    return Example(**{name: row.get(name) for name in fields}, story=story(row))


def _causes(name: str, facts: Facts) -> dict[str, int]:
    if name == "lost":
        return _by_cause(facts.losses)
    if name == "removed":
        return dict(facts.removed)
    if name == "inconsistent-offset":
        return _by_cause(facts.displaced)
    if name == "unmirrored":
        return dict(facts.unmirrored)
    by_replay = {
        "duplicate": sum(one.count for one in facts.replayed_twice),
        "reordered": sum(one.count for one in facts.reordered if one.replay),
    }.get(name, 0)
    return {"replay": by_replay} if by_replay else _store_causes(facts) if name == "lost-in-store" else {}


def _store_causes(facts: Facts) -> dict[str, int]:
    """How many kept messages were lost by Kafka, and how many by the store."""
    by_kafka = facts.kept.lost_after_replay
    causes = {"kafka": by_kafka, "store": facts.kept.lost_in_store - by_kafka}
    return {cause: n for cause, n in causes.items() if n}


def _by_cause(kinds: Sequence[Loss | Displaced]) -> dict[str, int]:
    """Counts by cause. What is unexplained, and was removed as configured, counts as `deleted` (by a step of
    the timeline), `compaction` or `retention`.
    """
    found: Counter[str] = Counter()
    for kind in kinds:
        removed = kind.known.removed_by if kind.cause == "unexplained" else None
        found["deleted" if removed == "step" else removed or kind.cause] += kind.count
    return dict(sorted(found.items()))


def _suspect_notes(sections: Sections) -> Iterator[str]:
    """A note for each suspect client program."""
    return (suspect.story for suspect in sections["findings", None]["suspects"])


def _ignored_notes(run: Run) -> Iterator[str]:
    """A note if samples were ignored."""
    if n := run.given.evidence.tables["samples"].rows - len(run.given.samples):
        yield (
            f"{n:,} samples of lag, of offsets or of CPU time were ignored: "
            "their values are below 0, too great, or no numbers at all."
        )
