"""`kaput demo`: one kill of a leader, seen by acks=1 and by acks=all at the same time."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from kaput.cli.options import TableOptions
from kaput.cli.results import Result, end, entries, keep_report, show_series
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.report.comparison import Entry

PAIR = ("leader-kill-lagging-acks-1", "leader-kill-lagging-acks-all")
LABELS = ("acks=1", "acks=all")
# What fits on 24 lines, with the sentence and the address.
COLUMNS = (
    "scenario", "verdict", "sent", "acked", "lost", "duplicate", "unseen", "standstill ms",
    "outage waited for", "election ms", "acked in 1 s %", "ack p99 ms", "end-to-end p99 ms",
)  # fmt: skip
PAGE = "demo.html"
_WIDTH = 80
_FIRST = """\
A producer with acks=1 and one with acks=all send to three brokers. While their
leader's followers are paused, the leader is killed. This takes about 35 s, 20
of them for the experiment itself; the first time, Kafka's jars are fetched.
"""
_NOW = {
    "provision": "starting three brokers and a controller",
    "warm up": "warming up the brokers, starting the clients",
    "inject": "sending",
    "heal": "waiting for every broker and every outcome",
    "drain": "reading every partition to its end",
    "collect": "reading what the cluster logged",
    "seal": "writing the evidence",
    "judge": "accounting for every message",
}


def demo_command(
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[bool, Option("--json", help="Print both findings as a list on stdout.")] = False,
    open_: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Kill a leader with lagging followers: acks=1 and acks=all.

    With acks=1, acknowledged messages are lost; with acks=all, none are. Both see the same kill.

    Example: kaput demo --open
    """
    import kaput.runner  # noqa: F401  what kaput-lab lacks is missed before anything is promised

    sys.stderr.write(_FIRST)
    from kaput.cli.progress import RunProgress
    from kaput.cli.run_scenarios import run_together
    from kaput.cli.scenario_choice import choose

    choices, progress = choose(PAIR, [], [], []), RunProgress("demo", _NOW)
    with run_together(choices, None, 1, runs, progress=progress) as series:
        if json or len(series.results) < len(PAIR):
            show_series(series, json, as_list=True, printed=TableOptions(reports=False))
        sys.stdout.write(summary(entries(series.results)))
        sys.stdout.flush()
        address = _keep_pages(series.results)
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
    if open_:
        typer.launch(address)
    end(series)


def summary(runs: Sequence[Entry]) -> str:
    """The table of both runs, at most 80 columns wide, and what they show in a sentence."""
    from kaput.report.comparison_report import load_warnings, to_text

    named = [replace(run, scenario=label) for run, label in zip(runs, LABELS, strict=True)]
    judged = [run.findings for run in runs if run.findings is not None]
    sentences = [learned(*judged), *(f"With {warning}" for warning in load_warnings(named))]
    text = "\n".join(textwrap.fill(sentence, _WIDTH) for sentence in sentences)
    return f"{to_text(named, _WIDTH, COLUMNS).plain}\n{text}\n"


def learned(acks_1: Findings, acks_all: Findings) -> str:
    """What the two runs show, in a sentence."""
    for findings, label in zip((acks_1, acks_all), LABELS, strict=True):
        if findings.verdict == "inconclusive":
            return f"Not known: the run with {label} is inconclusive: {findings.reasons[0]}"
    return (
        f"With acks=1, {_lost(acks_1)} of {acks_1.totals.acked:,} acknowledged messages are lost"
        f"{_why(acks_1)}, with acks=all {_lost(acks_all)} of {acks_all.totals.acked:,}; nothing was "
        f"acknowledged for {_silence(acks_1)} with acks=1, and for {_silence(acks_all)} with acks=all."
    )


def _lost(findings: Findings) -> str:
    return f"{findings.lost:,}" if findings.lost else "none"


def _why(findings: Findings) -> str:
    """The cause, in brackets, if every loss has the same."""
    (lost,) = findings.anomaly("lost")
    return (
        " (acknowledged by a leader that was then deposed)"
        if lost.causes == {"deposed-leader": lost.count}
        else ""
    )


def _silence(findings: Findings) -> str:
    """The longest standstill of all partitions together."""
    service = next((one for one in findings.availability if one.group is None and not one.topic), None)
    if service is None:
        return "a time that is not known"
    longest = f"{(service.longest_standstill_ms or 0) / 1000:.1f} s"
    return f"up to {longest} at a time" if service.standstills > 1 else longest


def _keep_pages(results: Sequence[Result]) -> str:
    """Writes the page of each run, and next to the first one a page of both; returns its address."""
    from kaput.evidence.folder import replace_text
    from kaput.report.comparison_report import to_html

    links = []
    for result, label in zip(results, LABELS, strict=True):
        keep_report(result.folder, result.findings)
        links.append((f"the report of {label}", f"../{result.folder.path.name}/report.html"))
    path = results[0].folder.path.resolve() / PAGE
    pairs = [(result.folder, result.findings) for result in results]
    answer = learned(*(result.findings for result in results))
    replace_text(path, to_html(pairs, entries(results), links=links, answer=answer))
    return path.as_uri()
