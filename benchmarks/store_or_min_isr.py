"""docs/STORE_OR_MIN_ISR.md: does a store for failed messages protect better than min.insync.replicas=2?

    .venv/bin/python benchmarks/store_or_min_isr.py [--repeat N] [--runs DIR] [--fault NAME] [--setting NAME]
    .venv/bin/python benchmarks/store_or_min_isr.py --latencies ...

Runs the scenario `store-or-min-isr` with each of six settings, and with a shipper that has a disk queue of
its own (rsyslog; Debian: rsyslog, rsyslog-kafka), under each of five faults, --repeat times.

Counts: the seven settings of a fault share a cluster and meet the same fault, side by side; about 5 minutes
for 35 runs. --latencies: one run at a time, because others on the same cores would make it slower; about 45
minutes. Both write their tables of the page from the run folders in --runs; what is there already is not run
again. --fault, --setting: only these; the rows of the others stay as they are.
"""

from __future__ import annotations

import argparse
import copy
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import kaput
from kaput.evidence.findings import Findings
from kaput.report.statistics import LEAST, summarise
from kaput.scenario.builtin import builtin_text

PAGE = Path(__file__).parent.parent / "docs" / "STORE_OR_MIN_ISR.md"
BEGIN, END = "<!-- begin: {} (benchmarks/store_or_min_isr.py) -->\n", "<!-- end: {} -->"


class Setting(NamedTuple):
    """What a team may choose."""

    acks: str
    min_isr: int
    store: bool
    shipper: bool = False

    @property
    def name(self) -> str:
        """As in the page."""
        if self.shipper:
            return "acks=all, min ISR 2, rsyslog"
        acks = "acks=1" if self.acks == "1" else f"acks=all, min ISR {self.min_isr}"
        return f"{acks}, store" if self.store else acks


class Trouble(NamedTuple):
    """A fault, or two. `messages`: that a producer sends meanwhile."""

    name: str
    about: str
    faults: list[dict[str, Any]]
    messages: int = 15_000


_LEADER = "leader-of orders/0"
SETTINGS = [
    *(Setting(*acks, store) for acks in (("1", 1), ("all", 1), ("all", 2)) for store in (False, True)),
    Setting("all", 2, store=False, shipper=True),
]
_SHIPPER = Path(__file__).parent.parent / "examples" / "clients" / "rsyslog" / "client.py"
TROUBLES = [
    Trouble(
        "crash",
        "the leader is killed for 11 s while its followers lag",
        [
            {"at": "4s", "fault": "pause", "target": "followers-of orders/0", "for": "4500ms"},
            {"at": "6s", "fault": "kill", "target": _LEADER, "for": "11s"},
        ],
    ),
    Trouble(
        "isolation",
        "the leader is cut off from the other brokers for 15 s; clients still reach it",
        [{"at": "5s", "fault": "isolate", "target": _LEADER, "for": "15s"}],
    ),
    Trouble(
        "controllers",
        "the leader is cut off only from the controller for 15 s",
        [{"at": "5s", "fault": "cut", "target": _LEADER, "from": "controllers", "for": "15s"}],
    ),
    Trouble(
        "slow network",
        "250 ms ± 50 ms of added latency between all brokers for 15 s",
        [{"at": "5s", "fault": "delay", "target": "all", "from": "all-nodes", "delay": "250ms",
          "jitter": "50ms", "for": "15s"}],
    ),
    Trouble(
        "away",
        "all brokers are down for 60 s",
        [{"at": "5s", "fault": "kill", "target": "all", "for": "60s"}],
        40_000,
    ),
]  # fmt: skip


def main() -> None:
    """Runs what is missing, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--latencies", action="store_true")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--fault", choices=[trouble.name for trouble in TROUBLES], action="append")
    parser.add_argument("--setting", choices=[setting.name for setting in SETTINGS], action="append")
    options = parser.parse_args()
    troubles = [one for one in TROUBLES if not options.fault or one.name in options.fault]
    settings = [one for one in SETTINGS if not options.setting or one.name in options.setting]
    name, columns = ("latencies", LATENCIES) if options.latencies else ("counts", COUNTS)
    runs = options.runs or Path(tempfile.gettempdir()) / f"store-or-min-isr-{name}"
    files = _files(runs, list(product(troubles, settings)), together=not options.latencies)
    (_run_alone if options.latencies else _run_together)(runs, files, options.repeat)
    found: dict[tuple[str, str], list[Findings]] = {}
    for path in sorted(runs.glob("*/findings.json")):
        findings = kaput.load(path.parent)
        trouble, setting = findings.run.title.split(": ")
        found.setdefault((trouble, setting), []).append(findings)
    begin, end = BEGIN.format(name), END.format(name)
    before, rest = PAGE.read_text().split(begin)
    tables, after = rest.split(end)
    PAGE.write_text(before + begin + "\n" + _tables(found, tables, columns) + "\n" + end + after)


def _files(runs: Path, cells: list[tuple[Trouble, Setting]], *, together: bool) -> dict[str, str]:
    """A scenario file for each cell: its path by its name."""
    folder = runs / "scenarios"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for trouble, setting in cells:
        name = re.sub("[^a-z0-9]+", "-", f"{trouble.name} {setting.name}".lower())
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(scenario(trouble, setting, together=together), sort_keys=False))
        found[name] = str(path)
    return found


def _run_together(runs: Path, files: dict[str, str], repeat: int) -> None:
    """Runs of the same fault share a cluster: they are successive cells of a matrix."""
    cells = {name: {"scenario": path} for name, path in files.items()}
    matrix = runs / "scenarios" / "matrix.yaml"
    matrix.write_text(yaml.safe_dump({"version": 1, "title": "Cells", "faults": cells}, sort_keys=False))
    _kaput("matrix", str(matrix), "--resume", "--repeat", str(repeat), "--runs", str(runs))


def _run_alone(runs: Path, files: dict[str, str], repeat: int) -> None:
    done = {path.parent.name.partition("-")[2].rpartition("-")[0] for path in runs.glob("*/findings.json")}
    if left := [path for name, path in files.items() if name not in done]:
        _kaput("run", *left, "--repeat", str(repeat), "--runs", str(runs), "--no-page")


def _kaput(*words: str) -> None:
    # Exit status 1: Kafka broke its promise in some runs, which is a result here like any other.
    subprocess.run([str(Path(sys.executable).with_name("kaput")), *words], check=False)


def scenario(trouble: Trouble, setting: Setting, *, together: bool) -> dict[str, Any]:
    """The built-in with another fault and setting."""
    found = copy.deepcopy(yaml.safe_load(builtin_text("store-or-min-isr")))
    found |= {"title": f"{trouble.name}: {setting.name}", "faults": trouble.faults}
    found["expect"] = {"verdict": "held"}
    found["topics"][0]["config"]["min.insync.replicas"] = setting.min_isr
    (producer,) = found["workload"]["producers"]
    producer |= {"acks": setting.acks, "messages": trouble.messages}
    if not setting.store:
        del found["stores"], producer["on-failure"]
    if together:
        # What costs brokers is requests, and without a limit those of seven producers queue up, for seconds.
        producer["config"] |= {"linger.ms": 40, "max.in.flight": 5}
    if setting.shipper:
        producer |= {"client": "command", "command": shlex.join([sys.executable, str(_SHIPPER)])}
        found["workload"]["groups"][0]["client"] = "java"  # so that messages are text
    return found  # type: ignore[no-any-return]


def _of_kept(name: str) -> Callable[[Findings], float]:
    return lambda findings: getattr(findings.kept, name) if findings.kept else 0


def _latency(percentile: str) -> Callable[[Findings], str]:
    def found(findings: Findings) -> str:
        every = {one.when: getattr(one.ack, percentile) for one in findings.latency_ms.around_faults}
        return " / ".join(_ms(every.get(when)) for when in ("before", "during", "after"))

    return found


def _standstill(findings: Findings) -> float:
    every = [one for one in findings.availability if one.group is None and one.topic is None]
    return every[0].longest_standstill_ms / 1000 if every else 0.0


Columns = dict[str, Callable[[Findings], float | str]]
COUNTS: Columns = {
    "lost": lambda f: f.total("lost"),
    "given back": lambda f: f.totals.failed + f.totals.unknown + f.totals.refused,
    "of these stored": lambda f: f.total("recovered") + f.total("ghost"),
    "kept, delivered later": _of_kept("delivered_later"),
    "duplicates": lambda f: f.total("duplicate"),
    "out of order": lambda f: f.total("reordered"),
    "standstill (s)": _standstill,
    "kept (kB)": lambda f: (f.kept.kept if f.kept else 0) * 100 / 1000,
}
LATENCIES: Columns = {
    "ack p50 (ms)": _latency("p50"),
    "ack p99 (ms)": _latency("p99"),
    "acked per s": lambda f: f.rates.acked_per_s,
}


def _tables(found: dict[tuple[str, str], list[Findings]], there: str, columns: Columns) -> str:
    """A table for each fault: the rows of the runs `found`, and for the others those that are there."""
    old = {part.partition("**")[0]: part for part in re.split(r"^\*\*", there, flags=re.M)[1:]}
    tables = [
        f"**{each.name}**: {each.about}\n\n{_table(each, found, _rows(old.get(each.name, '')), columns)}"
        for each in TROUBLES
    ]
    return "\n\n".join(tables)


def _rows(table: str) -> dict[str, str]:
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines}


def _table(
    trouble: Trouble,
    found: dict[tuple[str, str], list[Findings]],
    old: dict[str, str],
    columns: Columns,
) -> str:
    lines = ["| setting | " + " | ".join(columns) + " |", "| --- |" + " --: |" * len(columns)]
    for setting in SETTINGS:
        runs = found.get((trouble.name, setting.name), [])
        cells = [_cell([column(one) for one in runs]) for column in columns.values()]
        new = f"| {setting.name} | " + " | ".join(cells) + " |"
        lines.append(new if runs else old.get(setting.name, new))
    return "\n".join(lines)


def _cell(values: list[float | str]) -> str:
    """One run, or all the same: the value; a few: least to greatest; from LEAST runs on the mean and its 95 %
    interval.
    """
    numbers = [value for value in values if not isinstance(value, str)]
    if not numbers:
        return str(values[len(values) // 2]) if values else "-"
    least, most = min(numbers), max(numbers)
    if len(numbers) >= LEAST and least < most:
        found = summarise(numbers)
        return f"{_number(found.mean)} ({found.interval})"
    return _number(least) if least == most else f"{_number(least)} to {_number(most)}"


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


if __name__ == "__main__":
    main()
