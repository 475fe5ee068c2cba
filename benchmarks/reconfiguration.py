"""docs/RECONFIGURATION.md: how long producers take to find new leaders, by how many there are, of how many
brokers.

    .venv/bin/python benchmarks/reconfiguration.py [--runs DIR]

Runs the scenario `reconfiguration` once for each number of producers and brokers (12 runs, a quarter of an
hour), and writes the page and its chart from what the run folders hold. --runs: run folders that are there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pyarrow.dataset as ds
from vl_convert import vegalite_to_svg

import kaput
from kaput.core import MS, SECOND

DOCS = Path(__file__).parent.parent / "docs"
PRODUCERS, BROKERS = (1, 10, 50, 200), (2, 5, 10)
_KAPUT = str(Path(sys.executable).with_name("kaput"))
_HEAD = """# How long producers take to find a new leader

Does the time until producers go on after a broker's death depend on how many producers and brokers there are? The sequence test of 2012 measured up to ten of each, and left it open. One broker is killed for 15 s while every producer sends four messages a second to one of twenty partitions (two replicas each); `reconfiguration` is the built-in scenario, and this page is made by

    .venv/bin/python benchmarks/reconfiguration.py

**The answer** of these runs (24 November 2026, everything on one machine with two cores, one run each): no. With 1 to 200 producers and 2 to 10 brokers the last producer knew 0.2 to 2.3 s after the election, and the session timeout before it takes four times as long. What grows is the number of metadata requests, in step with the producers. What shrinks is the share that waits: one in as many as there are brokers.

"""  # noqa: E501
_MEANINGS = """
- **affected**: messages that were delayed, lost, failed or of unknown outcome until the new leaders' first acknowledgements, of all that were sent in that time (`affected_share`).
- **election**: from the kill to the first new leader: the broker session timeout of 9 s decides.
- **learned**: from the election of its partition's new leader to a producer's first acknowledgement from it, over the producers that send to partitions of the dead broker: median, 95th percentile, last. A producer that sends every 250 ms cannot show it sooner.
- **metadata requests per s**: of all producers together, by librdkafka's own count: the mean over the run, and the busiest second.
"""  # noqa: E501


@dataclass(frozen=True)
class Row:
    """One run. Times in ms."""

    producers: int
    brokers: int
    verdict: str
    lost: int
    affected_share: float
    election_ms: float | None
    affected_producers: int
    learned_ms: list[float]
    requests_per_s: float
    most_requests_per_s: float

    @property
    def slowest_ms(self) -> float | None:
        """When the last producer learned of its new leader."""
        return max(self.learned_ms, default=None)


def main() -> None:
    """Runs what is missing, writes the page and the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path, help="run folders of an earlier call")
    runs = parser.parse_args().runs or _run(Path(tempfile.mkdtemp(prefix="reconfiguration-")))
    folders = sorted(path.parent for path in runs.glob("*-reconfiguration-*/findings.json"))
    rows = sorted((_row(folder) for folder in folders), key=lambda r: (r.brokers, r.producers))
    (DOCS / "reconfiguration.svg").write_text(vegalite_to_svg(_chart(rows).to_dict()))
    (DOCS / "RECONFIGURATION.md").write_text(_page(rows))


def _run(runs: Path) -> Path:
    varied = [
        f"workload.producers.0.count={','.join(map(str, PRODUCERS))}",
        f"cluster.brokers={','.join(map(str, BROKERS))}",
    ]
    options = [word for each in varied for word in ("--vary", each)]
    subprocess.run([_KAPUT, "run", "reconfiguration", *options, "--runs", str(runs), "--no-page"], check=True)
    return runs


def _row(folder: Path) -> Row:
    """The figures of one run, from its findings and its rows."""
    findings = kaput.load(folder)
    (fault,) = findings.faults
    learned = _learned_ms(findings, pl.read_parquet(folder / "evidence" / "sends" / "*.parquet"))
    mean, most = _requests(folder, findings.run.started_ns)
    return Row(
        producers=findings.run.varied["workload.producers.0.count"],
        brokers=findings.run.varied["cluster.brokers"],
        verdict=findings.verdict,
        lost=findings.lost,
        affected_share=fault.affected_share or 0.0,
        election_ms=fault.election_ms,
        affected_producers=len(learned),
        learned_ms=learned,
        requests_per_s=mean,
        most_requests_per_s=most,
    )


def _learned_ms(findings: Any, sends: pl.DataFrame) -> list[float]:
    """Of each producer, from the election to its first acknowledgement from the new leader."""
    found = []
    for change in findings.leader_changes:
        if change.fault is None or change.leader == change.old_leader:
            continue
        of = sends.filter(
            pl.col("topic") == change.topic,
            pl.col("partition") == change.partition,
            pl.col("outcome") == "acked",
            pl.col("done_ns") >= change.elected_ns,
        )
        first = of.group_by("producer").agg(pl.col("done_ns").min())
        found += [(at_ns - change.elected_ns) / MS for at_ns in first["done_ns"]]
    return sorted(found)


def _requests(folder: Path, began_ns: int) -> tuple[float, float]:
    """Metadata requests a second of all producers: the mean, and those of the busiest second."""
    rows = ds.dataset(folder / "evidence" / "samples").to_table().to_pylist()
    counts = pl.DataFrame(
        [
            (dict(row["labels"])["producer"], (row["at_ns"] - began_ns) // SECOND, row["at_ns"], row["value"])
            for row in rows
            if row["name"] == "metadata_requests"
        ],
        ["producer", "second", "at_ns", "value"],
        orient="row",
    )
    steps = counts.sort("at_ns").with_columns(new=pl.col("value").diff().over("producer")).drop_nulls("new")
    seconds = steps.group_by("second").agg(pl.col("new").sum())
    span = seconds["second"].max() - seconds["second"].min() + 1
    return seconds["new"].sum() / span, seconds["new"].max()


def _page(rows: list[Row]) -> str:
    lines = [
        "| brokers | producers | verdict | lost | affected | election | affected producers "
        "| learned: median | 95 % | last | metadata requests per s: mean | most |",
        "|" + " --: |" * 2 + " --- |" + " --: |" * 9,
    ]
    lines += [_line(row) for row in rows]
    about = "Time until the last producer learned of its new leader, by producers and brokers"
    chart = f"\n![{about}](reconfiguration.svg)\n"
    return _HEAD + "\n".join(lines) + "\n" + chart + _MEANINGS


def _line(row: Row) -> str:
    learned = pl.Series(row.learned_ms)
    known = [learned.median(), learned.quantile(0.95, "higher"), row.slowest_ms]
    times = known if row.learned_ms else [None] * 3
    election = "-" if row.election_ms is None else f"{row.election_ms:,.0f} ms"
    cells = [
        str(row.brokers),
        str(row.producers),
        row.verdict,
        f"{row.lost:,}",
        f"{row.affected_share:.1%}",
        election,
        str(row.affected_producers),
        *("-" if one is None else f"{one:,.0f} ms" for one in times),
        f"{row.requests_per_s:,.1f}",
        f"{row.most_requests_per_s:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _chart(rows: list[Row]) -> alt.Chart:
    values = [
        {"producers": row.producers, "brokers": f"{row.brokers} brokers", "seconds": row.slowest_ms / 1000}
        for row in rows
        if row.slowest_ms is not None
    ]
    return (
        alt.Chart(alt.Data(values=values), width=520, height=260)
        .mark_line(point=True)
        .encode(
            x=alt.X("producers:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=list(PRODUCERS))),
            y=alt.Y("seconds:Q", title="until the last producer learned (s)"),
            color=alt.Color("brokers:N", title=None, sort=None),
        )
    )


if __name__ == "__main__":
    main()
