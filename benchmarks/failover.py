"""docs/FAILOVER.md: data center 1 is cut off; can we fail over without disrupting reads, or writes?

    .venv/bin/python benchmarks/failover.py [--times N] [--case NAME] [--runs DIR] [--no-run]

Runs the built-in scenarios and their variants (about a minute each), and writes the page's table and chart
from what the run folders hold: the median of all runs of a case, and from which to which. --times: how many
runs of each there should be (default: 1). --runs: where they are put; those that are there count. --case:
only that one; a case without a run is left out of the table. --no-run: writes the table from what is there.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import altair as alt
from vl_convert import vegalite_to_svg

import kaput
from kaput.api.runs import Findings
from kaput.errors import KaputError

PAGE = Path(__file__).parent.parent / "docs" / "FAILOVER.md"
CHART = PAGE.with_name("failover.svg")
BEGIN, END = "<!-- table: made by benchmarks/failover.py -->\n", "<!-- end of table -->"
_KAPUT = str(Path(sys.executable).with_name("kaput"))
_STORE = ["stores={local: {kind: sqlite}}", "workload.producers.0.on-failure={stores: [local]}"]


class Case(NamedTuple):
    """One row of the table: a built-in scenario, and what is different in it. `sync_s`: its interval of
    offset syncs, if the chart shows it.
    """

    name: str
    scenario: str
    settings: tuple[str, ...] = ()
    sync_s: int | None = None


CASES = [
    Case("planned switch", "planned-switchover", sync_s=1),
    Case("planned switch, offset sync 10 s", "planned-switchover", ("mirrors.0.offset-sync=10s",), 10),
    Case("planned switch, offset sync 60 s", "planned-switchover", ("mirrors.0.offset-sync=60s",), 60),
    Case("dc1 cut off", "dc1-netsplit", sync_s=1),
    Case("dc1 cut off, with a store", "dc1-netsplit", tuple(_STORE)),
    Case("dc1 cut off, offset sync 10 s", "dc1-netsplit", ("mirrors.0.offset-sync=10s",), 10),
    Case("dc1 cut off, offset sync 60 s", "dc1-netsplit", ("mirrors.0.offset-sync=60s",), 60),
    Case("dc1 cut off, exactly-once mirror", "dc1-netsplit", ("mirrors.0.exactly-once=true",)),
    Case("half of the clients move", "dc1-netsplit-half"),
    Case("dc1 dies and returns", "dc1-dies-and-returns"),
]
_HEAD = (
    "case", "runs", "acknowledged", "lost", "without an outcome", "kept", "not in dc2 (RPO)", "RPO (s)",
    "writers waited (s)", "readers waited (s)", "read twice", "skipped", "duplicates",
)  # fmt: skip


def main() -> None:
    """Runs what is missing, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "failover")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--no-run", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        wanted = not options.no_run and (not options.case or case.name in options.case)
        for _ in range(options.times - len(_found(options.runs)[case.name]) if wanted else 0):
            words = [word for text in (f"title={case.name}", *case.settings) for word in ("--set", text)]
            # Exit status 1: an expectation was not met, which is a result here like any other.
            command = [_KAPUT, "run", case.scenario, *words, "--no-page", "--runs", str(options.runs)]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    found = _found(options.runs)
    rows = [_row(case.name, found[case.name]) for case in CASES if found[case.name]]
    table = [_HEAD, ("---", *["--:"] * (len(_HEAD) - 1)), *rows]
    text = "\n".join(f"| {' | '.join(row)} |" for row in table)
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n\n{END}{rest.split(END)[1]}")
    CHART.write_text(vegalite_to_svg(_chart(found).to_dict()))


def _found(runs: Path) -> defaultdict[str, list[Findings]]:
    """The runs of each case, by its title; a built-in scenario as it is has no title of a case."""
    as_they_are = {case.scenario: case.name for case in CASES if not case.settings}
    titles = {case.name for case in CASES}
    found = defaultdict(list)
    for path in sorted(runs.glob("*/findings.json")):
        try:
            findings = kaput.load(path.parent)
        except KaputError:
            continue  # it was ended before it was judged
        title = findings.run.title
        found[title if title in titles else as_they_are.get(findings.run.scenario, title)].append(findings)
    return found


def _row(name: str, runs: Sequence[Findings]) -> tuple[str, ...]:
    return (name, str(len(runs)), *map(_middle, zip(*map(_numbers, runs), strict=True)))


def _chart(found: dict[str, list[Findings]]) -> alt.Chart:
    """Offset sync interval against messages read twice."""
    values = [
        {"sync": case.sync_s, "case": case.name.partition(",")[0], "twice": _read_twice(findings)}
        for case in CASES
        if case.sync_s is not None
        for findings in found[case.name]
    ]
    syncs = sorted({case.sync_s for case in CASES if case.sync_s is not None})
    return (
        alt.Chart(alt.Data(values=values), width=520, height=260)
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "sync:Q",
                title="offset sync interval (s)",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=syncs),
            ),
            y=alt.Y("median(twice):Q", title="messages read twice (median)"),
            color=alt.Color("case:N", title=None, sort=None),
        )
    )


def _read_twice(findings: Findings) -> int:
    assert findings.plan is not None
    return sum(group.read_twice for group in findings.plan.groups)


def _numbers(findings: Findings) -> tuple[float | None, ...]:
    totals, plan = findings.totals, findings.plan
    first = findings.mirrors[0]
    assert plan is not None
    groups = plan.groups
    waits = [group.rto.seconds for group in groups if group.rto is not None]
    return (
        totals.acked,
        findings.lost,
        totals.unknown + totals.failed,
        totals.kept or 0,
        first.unmirrored,
        float(first.rpo_s or 0) if first.unmirrored else 0.0,
        plan.rto_writes.seconds if plan.rto_writes else None,
        max(waits) if waits else None,
        _read_twice(findings),
        sum(group.skipped for group in groups),
        sum(one.count for one in findings.anomalies if one.name == "duplicate"),
    )


def _middle(values: Sequence[float | None]) -> str:
    """The median, and the least and the greatest where they differ; ? if a run does not have the number."""
    known = sorted(value for value in values if value is not None)
    if len(known) < len(values):
        return "?"
    whole = all(isinstance(value, int) for value in known)
    middle, least, greatest = (
        f"{value:,.0f}" if whole else f"{value:,.1f}"
        for value in (statistics.median(known), known[0], known[-1])
    )
    return middle if least == greatest else f"{middle} ({least} to {greatest})"


if __name__ == "__main__":
    main()
