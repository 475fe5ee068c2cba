"""docs/WAKE_ME_UP.md: what is a good wake-me-up boundary? Alert rules scored on faults, and tuned.

    .venv/bin/python benchmarks/wake_me_up.py [--case NAME] [--runs DIR] [--no-run]

Runs the cases (about half an hour), and writes the page's tables and its charts from what the run folders
hold. --runs: where they are put; cases that are there already are not run again. --case: only that one.
--no-run: writes the page from what is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import yaml

from kaput.cli.alerts import chart_of
from kaput.monitor.alerts.rules import AlertRules, builtin, condition_words
from kaput.monitor.alerts.scoring.score import (
    FiredAlert,
    RecordedRun,
    RuleScore,
    RunScore,
    Tuning,
    recorded_run,
    scored,
    tuned,
)

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "WAKE_ME_UP.md"
# The rules that are tuned: thresholds (none: over all that the runs show), and for how long (ms).
TUNED: list[tuple[str, list[float], list[int]]] = [
    ("low-send-rate", [50, 100, 200, 300, 400, 500, 600, 700, 800, 850, 900, 950, 1000], [0, 10_000, 30_000]),
    ("nothing-acknowledged", [1, 2, 3, 5, 7, 8, 9, 10, 12, 15, 20, 25, 30, 35], [0]),
    ("consumer-lag-growing", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9], [10_000, 20_000, 30_000]),
]
_KAPUT = str(Path(sys.executable).with_name("kaput"))


class Case(NamedTuple):
    """A run: its faults, and what is different in its scenario."""

    name: str
    faults: list[dict[str, str]]
    network: str = "loopback"


_WHILE = {"at": "25s", "for": "40s"}
CASES = [
    Case("quiet", [{"at": "25s", "fault": "noop", "target": "any"}]),
    Case("rolling-restart", [{"at": "10s", "fault": "rolling-restart", "target": "all", "for": "3s"}]),
    Case("leader-killed", [{**_WHILE, "fault": "kill", "target": "leader-of orders/0"}]),
    Case("leader-isolated", [{**_WHILE, "fault": "isolate", "target": "leader-of orders/0"}], "namespaces"),
    Case("two-brokers-killed", [{**_WHILE, "fault": "kill", "target": f"broker {n}"} for n in (1, 2)]),
    Case("members-paused", [{**_WHILE, "fault": "pause", "target": "members of billing"}]),
    Case("leader-stopped", [{**_WHILE, "fault": "stop", "target": "leader-of orders/0"}]),
    Case("leader-paused", [{**_WHILE, "fault": "pause", "target": "leader-of orders/0"}]),
    Case("controller-killed", [{**_WHILE, "fault": "kill", "target": "controller"}]),
    Case(
        "controller-and-leader-killed",
        [{**_WHILE, "fault": "kill", "target": each} for each in ("controller", "leader-of orders/0")],
    ),
    Case("all-brokers-killed", [{**_WHILE, "for": "20s", "fault": "kill", "target": "all"}]),
    Case("member-killed", [{**_WHILE, "fault": "kill", "target": "member 1 of billing"}]),
]


def scenario(case: Case) -> str:
    """The case as a scenario: the usual set-up, at a thousand messages a second."""
    producer = {"topic": "orders", "acks": "all", "messages": 100_000, "rate": 1000}
    group = {"id": "billing", "topics": ["orders"], "members": 3}
    topic = {"name": "orders", "partitions": 6, "replication-factor": 3, "config": {"min.insync.replicas": 2}}
    document = {
        "version": 1,
        "title": case.name,
        "cluster": {"brokers": 3, "controllers": 1, "network": case.network},
        "topics": [topic],
        "workload": {"producers": [producer], "groups": [group]},
        "faults": case.faults,
    }
    return yaml.safe_dump(document, sort_keys=False)


def run(case: Case, runs: Path) -> None:
    """Runs it; a verdict is a result here like any other."""
    runs.mkdir(parents=True, exist_ok=True)
    path = runs / f"{case.name}.yaml"
    path.write_text(scenario(case), encoding="utf-8")
    command = [_KAPUT, "run", str(path), "--no-page", "--runs", str(runs)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def folders(runs: Path, name: str) -> list[Path]:
    """The judged runs of a case, by their names: TIME-CASE-RANDOM."""
    found = sorted(path.parent for path in runs.glob(f"*-{name}-*/findings.json"))
    return [path for path in found if path.name.partition("-")[2].rpartition("-")[0] == name]


def page(runs: Path) -> str:
    """The page with what is made of the runs between its markers; its charts are written beside it."""
    rules = builtin()
    recorded = {case.name: recorded_run(found[-1]) for case in CASES if (found := folders(runs, case.name))}
    scores = {name: scored(rules, run) for name, run in recorded.items()}
    parts = {
        "recommendations": _recommendations(rules, recorded),
        "cases": _cases(scores),
        "tables": "".join(_tuned(rules, recorded)),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, made in parts.items():
        before, rest = text.split(f"<!-- {name}: made by benchmarks/wake_me_up.py -->\n")
        end = f"<!-- end of {name} -->"
        text = (
            f"{before}<!-- {name}: made by benchmarks/wake_me_up.py -->\n\n{made}\n{end}{rest.split(end)[1]}"
        )
    return text


def _tunings(rules: AlertRules, recorded: dict[str, RecordedRun]) -> list[Tuning]:
    return [
        tuned(rules, rules.by_name[name], [*recorded.values()], thresholds, fors)
        for name, thresholds, fors in TUNED
    ]


def _recommendations(rules: AlertRules, recorded: dict[str, RecordedRun]) -> str:
    """A line for each rule."""
    lines = []
    for tuning in _tunings(rules, recorded):
        best = tuning.recommended
        if best is None:
            lines.append(f"- **{tuning.rule.name}**: no recommendation: {tuning.why}.")
            continue
        delay_s = best.typical_detect_s
        lines.append(
            f"- **{tuning.rule.name}**: {_point_words(best)} (built in: {_point_words(tuning.current)}). Of "
            f"{len(best.detect_s) + best.missed} faults that needed someone it notices "
            f"{len(best.detect_s)}, after {delay_s:.0f} s (median), with "
            f"{best.needless + best.false} needless or false alerts; {tuning.why}."
        )
    return "\n".join(lines) + "\n"


def _point_words(point: RuleScore) -> str:
    return f"{point.threshold:,.6g} for {point.rule.for_ / 1000:g} s"


def _cases(scores: dict[str, RunScore]) -> str:
    rows = [("case", "fault", "needed someone for", "built-in rules that fired (severity, after how long)")]
    for name, score in scores.items():
        needs = sorted({need for fault in score.run.faults for need in fault.needs})
        rang = {_rang(each) for each in score.rung}
        faults = ", ".join(f"{fault.fault} {fault.target}" for fault in score.run.faults) or "none"
        rows.append((name, faults, ", ".join(needs) or "nothing", "<br>".join(sorted(rang)) or "none"))
    return _markdown(rows, " --- | --- | --- | --- ")


def _rang(each: FiredAlert) -> str:
    rule = each.episode.rule
    after = "" if each.detect_s is None else f"{each.detect_s:.0f} s, "
    return f"{rule.name} ({rule.severity}, {after}{each.judgement})"


def _tuned(rules: AlertRules, recorded: dict[str, RecordedRun]) -> Iterator[str]:
    for tuning in _tunings(rules, recorded):
        name = tuning.rule.name
        (DOCS / f"wake-me-up-{name}.svg").write_text(chart_of(tuning), encoding="utf-8")
        yield f"## {name}\n\n{condition_words(tuning.rule)}. {tuning.rule.why}\n\n"
        yield f"![Precision, recall and delay of {name} against its threshold](wake-me-up-{name}.svg)\n\n"
        yield f"{_points(tuning)}\n"


def _points(tuning: Tuning) -> str:
    """Thresholds that do as well as each other are one row."""
    rows = [("for", "threshold", "right", "needless", "false", "missed", "precision", "recall", "after (s)")]
    for (for_ms, figures), points in groupby(tuning.points, lambda each: (each.rule.for_, _figures(each))):
        same = [*points]
        delays = [each.typical_detect_s for each in same]
        span = _span([each.threshold for each in same])
        rows.append(
            (f"{for_ms / 1000:g} s", span, *figures, _span([each for each in delays if each is not None]))
        )
    return _markdown(rows, " --: | --- | " + " | ".join(["--:"] * 7) + " ")


def _span(values: list[float]) -> str:
    if not values:
        return "-"
    first, last = (f"{each:,.6g}" if each < 1 else f"{each:,.0f}" for each in (values[0], values[-1]))
    return first if first == last else f"{first} to {last}"


def _figures(score: RuleScore) -> tuple[str, ...]:
    counts = (score.right, score.needless, score.false, score.missed)
    shares = ("-" if share is None else f"{share:.0%}" for share in (score.precision, score.recall))
    return (*map(str, counts), *shares)


def _markdown(rows: Sequence[Sequence[str]], alignment: str) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{alignment}|", *body]) + "\n"


def main() -> None:
    """Runs what is missing, and writes the page and its charts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "wake-me-up")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--no-run", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        wanted = not options.no_run and (not options.case or case.name in options.case)
        if wanted and not folders(options.runs, case.name):
            run(case, options.runs)
    PAGE.write_text(page(options.runs), encoding="utf-8")


if __name__ == "__main__":
    main()
