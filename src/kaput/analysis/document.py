"""Builds the findings of a run from its totals: each question reports its sections, the verdict judges them.

No Spark and no counting: every number here was counted by a question, or is a sum or difference of those.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kaput.analysis.engine.asking import SHOWN
from kaput.analysis.engine.question import Check, Key, Question, Reported, Row
from kaput.analysis.run import Run
from kaput.errors import AccountingError
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings import Anomaly, Example, FaultFindings, Findings, GroupFindings, RunFindings
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES, RUN_ANOMALIES
from kaput.verdict.facts import Facts, GroupFacts
from kaput.verdict.judge import Judgement, judge

Sections = Mapping[tuple[str, Key], dict[str, Any]]


def findings(run: Run, questions: Sequence[Question]) -> Findings:
    """The whole document, judged. Raises AccountingError if two counts of the same thing differ."""
    reported = [part for question in questions for part in question.report(run)]
    _check(part for part in reported if isinstance(part, Check))
    given, sections = run.given, _sections(part for part in reported if isinstance(part, Reported))
    facts = _facts(run, sections)
    _check_excused(facts)
    rules = {name: rule for question in questions for name, rule in question.rules.items()}
    judgement = judge(facts, given.scenario, rules)
    return Findings(
        run=run_of(run),
        verdict=judgement.verdict,
        promise=judgement.promise,
        reasons=judgement.reasons,
        notes=[*run.given.manifest.notes, *judgement.notes, *_more_notes(run, sections)],
        expectations=list(judgement.expectations),
        groups=[GroupFindings(**sections["group", index]) for index in run.groups],
        anomalies=_anomalies(run, facts, sections, judgement, questions),
        faults=[_fault(one, sections["fault", one.id]) for one in given.faults],
        **sections["findings", None],
    )


def _fault(row: FaultRow, reported: Mapping[str, Any]) -> FaultFindings:
    recorded = {name: value for name, value in vars(row).items() if name in FaultFindings.model_fields}
    return FaultFindings.model_validate({**recorded, "bit": row.confirmed, **reported})


def _sections(reported: Iterable[Reported]) -> Sections:
    """The fields that all questions report, by section and key. Concatenates lists reported by several."""
    sections: dict[tuple[str, Key], dict[str, Any]] = defaultdict(dict)
    for section, key, fields in reported:
        for name, value in fields.items():
            here = sections[section, key]
            here[name] = here[name] + value if name in here else value
    return sections


def _facts(run: Run, sections: Sections) -> Facts:
    groups = [
        GroupFacts(**_counts(run, sections, GROUP_ANOMALIES, index), **sections["group_facts", index])
        for index in run.groups
    ]
    return Facts(**_counts(run, sections, RUN_ANOMALIES), groups=groups, **sections["facts", None])


def _counts(run: Run, sections: Sections, names: Iterable[str], index: int | None = None) -> dict[str, Any]:
    """Everything that is counted of each anomaly of the run or of a group, by name."""
    totals = run.totals
    reported = {name: sections["anomaly", (name, index)] for name in names}
    return {
        "counts": {name: totals.counted(name, index) for name in names},
        "flagged": {name: totals.cases[name, index, True] for name in names},
        "unclear": {name: totals.unclear[name, index] for name in names},
        "causes": {name: fields.get("causes", {}) for name, fields in reported.items()},
        "excused": {name: fields.get("excused", {}) for name, fields in reported.items()},
    }


def _check(checks: Iterable[Check]) -> None:
    """Compares counts of the same thing. Raises AccountingError naming each pair that differs."""
    wrong = [
        f"{what} {one:,} by {how[0]} and {other:,} by {how[1]}"
        for what, one, other, how in checks
        if one != other
    ]
    if wrong:
        raise AccountingError(f"the account does not balance: {'; '.join(wrong)}")


def _check_excused(facts: Facts) -> None:
    """Checks that no more cases are excused than counted. Raises AccountingError."""
    counts: dict[tuple[str, str | None], int] = {}
    excused: Counter[tuple[str, str | None]] = Counter()
    every: list[Facts | GroupFacts] = [facts, *facts.groups]
    for of in every:
        group = of.group if isinstance(of, GroupFacts) else None
        counts |= {(name, group): n for name, n in of.counts.items()}
        excused += Counter({(name, group): sum(kinds.values()) for name, kinds in of.excused.items()})
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


def _anomalies(
    run: Run,
    facts: Facts,
    sections: Sections,
    judgement: Judgement,
    questions: Sequence[Question],
) -> list[Anomaly]:
    """Every anomaly of the run, and every one of groups for each group (once if there is none)."""
    finders = {name: question for question in questions for name in question.stories}
    examples: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in run.totals.examples:
        examples[row["name"], row["grp"]].append(row)

    def anomaly(name: str, index: int | None = None) -> Anomaly:
        of = facts if index is None else facts.groups[index]
        group = of.group if isinstance(of, GroupFacts) else None
        return Anomaly(
            name=name,
            count=of.counts.get(name, 0),
            permitted=judgement.permitted.get((name, group), 0),
            unclear=judgement.unclear.get((name, group), 0),
            group=group,
            causes=of.causes.get(name, {}),
            counts=_by_part(run, name),
            extra_copies=sections["anomaly", (name, index)].get("extra_copies"),
            examples=_examples(examples[name, index], finders[name]) if name in finders else [],
        )

    of_groups = [anomaly(name, index) for name in GROUP_ANOMALIES for index in run.groups or [None]]
    return [*(anomaly(name) for name in RUN_ANOMALIES), *of_groups]


def _by_part(run: Run, name: str) -> dict[str, int]:
    """The number of cases by topic, producer or mirror; empty if the anomaly is not counted by these."""
    topics = run.names.topics if ANOMALIES[name].by == "topic" else None
    counts = {part: n for (of, part), n in run.totals.by_part.items() if of == name}
    return dict(sorted((topics[int(part)] if topics else part, n) for part, n in counts.items()))


def _examples(rows: list[Row], question: Question) -> list[Example]:
    """The first cases of an anomaly: each stage has found its own ones."""
    fields = ("producer", "seq", "topic", "partition", "offset")

    def order(row: Row) -> list[tuple[bool, Any]]:
        return [(row.get(name) is not None, row.get(name)) for name in question.shown_by]

    return [
        Example(**{name: row.get(name) for name in fields}, story=question.stories[row["name"]](row))
        for row in sorted(rows, key=order)[:SHOWN]
    ]


def _more_notes(run: Run, sections: Sections) -> Iterator[str]:
    """A note for each suspect client program, and one if samples were ignored."""
    yield from (suspect.story for suspect in sections["findings", None]["suspects"])
    if n := run.given.evidence.tables["samples"].rows - len(run.given.samples):
        yield (
            f"{n:,} samples of lag, of offsets or of CPU time were ignored: "
            "their values are below 0, too great, or no numbers at all."
        )
